// The fields of the side panel. What is typed reaches the document at short pauses and when the field is left.

import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Icon } from "../../graph/icon.tsx";

const PAUSE_MS = 250;

type TextProps = {
  label: string;
  value: string;
  onChange: (text: string, isEntered: boolean) => void;
  help?: string;
  placeholder?: string;
  suggestions?: readonly { name: string; detail?: string }[];
  isCode?: boolean;
  rows?: number;
  isLate?: boolean; // taken over when the field is left or Enter is pressed, never while typing
  isLabelHidden?: boolean;
  focusKey?: string; // a new value puts the keyboard here
};

export function TextField({
  label,
  value,
  onChange,
  help,
  placeholder,
  suggestions,
  isCode,
  rows,
  isLate,
  isLabelHidden,
  focusKey,
}: TextProps) {
  const id = useId();
  const [text, setText] = useState(value);
  const typed = useRef<string | null>(null); // what the document does not know yet
  const timer = useRef(0);
  const latest = useRef(onChange);
  latest.current = onChange;
  const field = useRef<HTMLInputElement & HTMLTextAreaElement>(null);

  const commit = (isEntered = false) => {
    clearTimeout(timer.current);
    if (typed.current === null) return;
    const now = typed.current;
    typed.current = null;
    latest.current(now, isEntered);
  };
  useEffect(() => {
    if (typed.current === null) setText(value);
  }, [value]);
  // A field that goes away (another step is selected, the page is left) takes nothing with it.
  useEffect(() => {
    const flush = () => commit();
    addEventListener("pagehide", flush);
    return () => {
      removeEventListener("pagehide", flush);
      commit();
    };
  }, []);
  useEffect(() => {
    if (focusKey) field.current?.select();
  }, [focusKey]);

  const onInput = (now: string) => {
    setText(now);
    typed.current = now;
    clearTimeout(timer.current);
    if (!isLate) timer.current = window.setTimeout(() => commit(), PAUSE_MS);
  };
  const leave = () => {
    commit();
    setText(latestValue.current);
  };
  const latestValue = useRef(value);
  latestValue.current = value;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !rows) {
      event.preventDefault();
      commit(true);
      // One that adds something is empty again, and keeps the keyboard.
      if (isLate) setText(latestValue.current);
    }
  };
  const common = {
    id,
    ref: field,
    value: text,
    placeholder,
    spellCheck: false,
    className: `form-control${isCode ? " mono" : ""}`,
    "aria-describedby": help ? `${id}-help` : undefined,
    "aria-label": isLabelHidden ? label : undefined,
    onBlur: isLate ? leave : () => commit(),
    onKeyDown,
  };
  return (
    <div className="field">
      {!isLabelHidden && <label htmlFor={id}>{label}</label>}
      {rows ? (
        <textarea
          {...common}
          rows={Math.min(14, Math.max(rows, text.split("\n").length))}
          onChange={(event) => onInput(event.target.value)}
        />
      ) : (
        <input
          {...common}
          list={suggestions ? `${id}-list` : undefined}
          autoComplete="off"
          onChange={(event) => onInput(event.target.value)}
        />
      )}
      {suggestions && (
        <datalist id={`${id}-list`}>
          {suggestions.map(({ name, detail }) => (
            <option key={name} value={name}>
              {detail}
            </option>
          ))}
        </datalist>
      )}
      {help && (
        <span className="help" id={`${id}-help`}>
          {help}
        </span>
      )}
    </div>
  );
}

export function SelectField({
  label,
  value,
  options,
  onChange,
  isLabelHidden,
  focusKey,
}: {
  label: string;
  value: string;
  options: readonly (readonly [value: string, word: string])[];
  onChange: (value: string) => void;
  isLabelHidden?: boolean;
  focusKey?: string; // a new value puts the keyboard here
}) {
  const id = useId();
  const field = useRef<HTMLSelectElement>(null);
  useEffect(() => {
    if (focusKey) field.current?.focus();
  }, [focusKey]);
  return (
    <div className="field">
      {!isLabelHidden && <label htmlFor={id}>{label}</label>}
      <select
        id={id}
        ref={field}
        className="form-select"
        value={value}
        aria-label={isLabelHidden ? label : undefined}
        onChange={(event) => onChange(event.target.value)}
      >
        {options.map(([option, word]) => (
          <option key={option} value={option}>
            {word}
          </option>
        ))}
      </select>
    </div>
  );
}

export function Switch({
  label,
  value,
  onChange,
  help,
}: {
  label: ReactNode;
  value: boolean;
  onChange: (value: boolean) => void;
  help?: string;
}) {
  return (
    <label className="form-switch switch-row" title={help}>
      <span>{label}</span>
      <input
        type="checkbox"
        role="switch"
        className="form-check-input"
        checked={value}
        onChange={(event) => onChange(event.target.checked)}
      />
    </label>
  );
}

export function SmallButton({
  icon,
  label,
  onClick,
  disabled,
}: {
  icon: string;
  label: string;
  onClick: () => void;
  disabled?: boolean;
}) {
  return (
    <button
      type="button"
      className="icon-button"
      title={label}
      aria-label={label}
      onClick={onClick}
      disabled={disabled}
    >
      <Icon name={icon} />
    </button>
  );
}

// Texts in a row: names of secrets, globs of outputs. Each can be changed and removed; the last field adds.
export function TextList({
  label,
  values,
  onChange,
  help,
  suggestions,
  placeholder,
}: {
  label: string;
  values: readonly string[];
  onChange: (values: string[]) => void;
  help?: string;
  suggestions?: readonly { name: string }[];
  placeholder?: string;
}) {
  return (
    <fieldset className="group">
      <legend>{label}</legend>
      {values.map((value, index) => (
        <div className="entry" key={index}>
          <TextField
            label={`${label} ${index + 1}`}
            isLabelHidden
            isCode
            isLate
            value={value}
            onChange={(text) => onChange(text.trim() ? values.with(index, text.trim()) : values.toSpliced(index, 1))}
          />
          <SmallButton icon="x" label={`Remove ${value}`} onClick={() => onChange(values.toSpliced(index, 1))} />
        </div>
      ))}
      <TextField
        label={`Add to ${label.toLowerCase()}`}
        isLabelHidden
        isCode
        isLate
        value=""
        placeholder={placeholder ?? "add"}
        {...(suggestions ? { suggestions } : {})}
        onChange={(text) => text.trim() && onChange([...values, text.trim()])}
      />
      {help && <span className="help">{help}</span>}
    </fieldset>
  );
}
