// Suggestions in a filter of experiments. The server reads and judges the whole; this only offers words.

export type Words = { columns: string[]; natures: Record<string, string>; values: Record<string, string[]> };
export type Offer = { from: number; to: number; options: string[] };

const TOKEN =
  /\s+|>=|<=|!=|==|[<>=(),]|(?:[^\s<>=!(),"']|\."(?:[^"\\]|\\.)*")+|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|!/g;
const ORDERS = ["<", "<=", ">", ">="];
const MOST = 12;

type State = { expects: "column" | "sign" | "value" | "join"; column: string; isList: boolean };

/** The words that fit at a place in the text, and which piece of it they would replace. */
export function offerAt(text: string, at: number, words: Words): Offer {
  const before = text.slice(0, at);
  const tokens = [...before.matchAll(TOKEN)].map((match) => ({ text: match[0], start: match.index }));
  const last = tokens.at(-1);
  const isTyping = last !== undefined && !/^(?:\s+|[(),]|[<>=!]+)$/.test(last.text);
  const state = (isTyping ? tokens.slice(0, -1) : tokens).reduce(after, {
    expects: "column",
    column: "",
    isList: false,
  });
  const from = isTyping ? last.start : at;
  const prefix = before.slice(from);
  const rest = /^[^\s<>=!(),"']*/.exec(text.slice(at))?.[0].length ?? 0;
  return { from, to: at + (isTyping ? rest : 0), options: matching(candidates(state, words), prefix) };
}

/** The text with an option in it, and where to go on writing. */
export function accept(text: string, offer: Offer, option: string): { text: string; at: number } {
  const rest = text.slice(offer.to).trimStart();
  const piece = option.endsWith("(") ? option : `${option} `;
  return { text: text.slice(0, offer.from) + piece + rest, at: offer.from + piece.length };
}

function after(state: State, token: { text: string }): State {
  const word = token.text.toLowerCase();
  if (!word.trim()) return state;
  if (word === "and" || word === "or") return { expects: "column", column: "", isList: false };
  if (state.expects === "column") {
    return word === "not" || word === "(" ? state : { ...state, expects: "sign", column: token.text };
  }
  if (state.expects === "sign") {
    if (word === "not") return state;
    if (word === ")") return { ...state, expects: "join" };
    return { ...state, expects: "value", isList: word === "in" };
  }
  if (state.expects === "value") return word === "(" || word === "," ? state : { ...state, expects: "join" };
  if (word === "," && state.isList) return { ...state, expects: "value" };
  return word === ")" ? { ...state, isList: false } : state;
}

function candidates(state: State, words: Words): string[] {
  const { expects, column, isList } = state;
  if (expects === "column") return [...words.columns, "not"];
  if (expects === "join") return isList ? [] : ["and", "or"];
  if (expects === "value")
    return (words.values[column] ?? []).map((value) => (/^[\w.+-]+$/.test(value) ? value : JSON.stringify(value)));
  const nature =
    words.natures[column] ?? (/^metrics?\./.test(column) ? "number" : /^data\./.test(column) ? "text" : "mixed");
  const equal = nature === "moment" ? [] : ["=", "!="];
  const orders = nature === "text" ? [] : ORDERS;
  const lists = nature === "moment" ? [] : ["in (", "not in ("];
  const contains = nature === "text" || nature === "mixed" ? ["contains"] : [];
  return [...equal, ...orders, ...lists, ...contains, ...(column in words.natures ? [] : ["and", "or"])];
}

/** Those that begin with what is written first, then those that hold it; nothing once it is one of them. */
function matching(options: string[], prefix: string): string[] {
  const wanted = prefix.toLowerCase();
  const starting = options.filter((option) => option.toLowerCase().startsWith(wanted));
  const holding = options.filter((option) => !starting.includes(option) && option.toLowerCase().includes(wanted));
  const found = [...starting, ...holding];
  return found.length === 1 && found[0] === prefix ? [] : found.slice(0, MOST);
}
