// Calls of the HTTP API in the name of the session. What goes wrong is an `ApiError` with the server's own words.

const ROOT = "/api/v1";

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(status: number, code: string, message: string, details: Record<string, unknown>) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }

  // Trying again may help: the server was not reached, is busy or broke.
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { "X-CSRFToken": token() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    answer = await fetch(ROOT + path, { method, headers, ...content, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The server does not answer.", {});
  }
  if (answer.status === 204) return undefined as T;
  const content = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  if (answer.ok) return content as T;
  const words = [content["title"], content["hint"]].filter(Boolean).join(" ");
  const details = (content["details"] ?? {}) as Record<string, unknown>;
  throw new ApiError(
    answer.status,
    String(content["code"] ?? ""),
    words || `The server answered ${answer.status}.`,
    details,
  );
}

function token(): string {
  return document.querySelector<HTMLInputElement>("input[name=csrfmiddlewaretoken]")?.value ?? "";
}
