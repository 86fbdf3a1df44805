// What a person typed into the fields of a form, taken out and put in again: never a secret, a file or what is hidden.

export type Typed = string | boolean;
type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

const FIELDS = "input:not([type=hidden], [type=file], [type=password]), select, textarea:not([data-secret])";

export function readFields(place: Element): Typed[] {
  return fieldsOf(place).map((field) => (isTicked(field) ? field.checked : field.value));
}

export function writeFields(place: Element, typed: readonly Typed[]): void {
  fieldsOf(place).forEach((field, index) => {
    const value = typed[index];
    if (typeof value === "string") field.value = value;
    else if (value !== undefined && isTicked(field)) field.checked = value;
  });
}

function fieldsOf(place: Element): Field[] {
  return [...place.querySelectorAll<Field>(FIELDS)];
}

function isTicked(field: Field): field is HTMLInputElement {
  return field.type === "checkbox" || field.type === "radio";
}
