// Requests to this page's API and to Airflow's own; nothing goes to another server.

/** The path below which Airflow serves, "" or "/airflow". */
export const ROOT = location.pathname.replace(/\/caretaker\/[^/]*$/, "");
const BASE = `${ROOT}/caretaker`;

/** An answer that is an error: `status`, a message, and what to do next. */
export class Failed extends Error {
  constructor(status, message, next) {
    super(message);
    this.status = status;
    this.next = next;
  }
}

/** The answer of `/caretaker/api/PATH`; Failed if it is an error. */
export function get(path, params = {}, signal = undefined) {
  return ask("GET", address(`${BASE}/api/${path}`, params), undefined, signal);
}

/** The answer of Airflow's public API. */
export function airflow(method, path, body) {
  return ask(method, `${ROOT}/api/v2/${path}`, body);
}

/** A path of this page with parameters; empty ones are left out. */
export function page(name, params = {}) {
  return address(`${BASE}/${name}`, params);
}

/** The page of a table. */
export function tablePage(row, warehouse) {
  return page("table", { warehouse, table: row.table, branch: row.branch === "main" ? "" : row.branch });
}

function address(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== "" && value !== null && value !== undefined && value !== false) query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function ask(method, url, body, signal) {
  let answer;
  try {
    answer = await fetch(url, {
      method,
      signal,
      credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed(0, "The server cannot be reached", "Check the network, then reload.");
  }
  const type = answer.headers.get("content-type") || "";
  const found = type.includes("json") ? await answer.json() : null;
  if (answer.ok) return found;
  if (answer.status === 401) {
    throw new Failed(401, "Your session has ended", "Log in to Airflow, then reload this page.");
  }
  if (answer.status === 403) {
    throw new Failed(403, "You do not have the permission", "Ask an administrator of Airflow.");
  }
  const detail = found && found.detail;
  const text = Array.isArray(detail) ? detail.map(wrong).join("; ") : detail || answer.statusText;
  throw new Failed(answer.status, text || `status ${answer.status}`, found && found.next_step);
}

/** What FastAPI says of one wrong parameter, in words. */
function wrong({ loc, msg }) {
  return `${(loc || []).slice(1).join(".")}: ${msg}`;
}
