// A DAG's own form, filled in.  The fields come from the DAG's params, and sending it calls Airflow's API,
// which checks the permission and the values again.

import { airflow } from "./api.js";
import { append, fill, h } from "./dom.js";
import { words } from "./format.js";
import { airflowLink, openDialog, showError } from "./shell.js";

/** Opens the form of the job's DAG with these values; `access` is its entry of the session. */
export async function openForm(access, values) {
  const place = h("div", {}, h("p", { class: "loading" }, "Loading the form…"));
  const dialog = openDialog(`Run ${words(access.job)}`, place);
  try {
    const dag = await airflow("GET", `dags/${encodeURIComponent(access.dag_id)}/details`);
    fill(place, form(dag, access, values, dialog));
    const first = place.querySelector("input, select, textarea, button");
    if (first) first.focus();
  } catch (error) {
    const none = error.status === 404;
    showError(place, none ? { message: `There is no DAG ${access.dag_id}`, next: "caretaker.toml may disable it, or Airflow has not parsed it yet." } : error);
  }
  return dialog;
}

function form(dag, access, values, dialog) {
  const fields = Object.entries(dag.params).map(([name, param]) => field(name, param, values[name]));
  const first = fields.filter((f) => !f.section);
  const rest = fields.filter((f) => f.section);
  const answer = h("div", { "aria-live": "polite" });
  const unpause = dag.is_paused ? h("input", { type: "checkbox", id: "unpause", checked: true }) : null;
  const send = h("button", { class: "primary", type: "submit", disabled: !access.may_trigger }, "Trigger");
  const note = access.may_trigger ? "" : "You may look at this form, but not trigger the DAG.";
  const submit = async (event) => {
    event.preventDefault();
    send.disabled = true;
    fill(answer);
    for (const said of made.querySelectorAll(".wrong")) said.remove();
    try {
      const conf = {};
      for (const f of fields) f.into(conf);
      const run = await airflow("POST", `dags/${encodeURIComponent(dag.dag_id)}/dagRuns`, { logical_date: null, conf });
      const path = `dags/${encodeURIComponent(dag.dag_id)}/runs/${encodeURIComponent(run.dag_run_id)}`;
      fill(answer, h("p", { class: "says" }, h("span", { class: "status success" }, "The run is queued. "), " ", airflowLink(path, "Open it in Airflow")));
      fill(buttons, h("span", { class: "spring" }), h("button", { type: "button", on: { click: () => dialog.close() } }, "Close"));
      // Not before the run: a form that Airflow refuses must not start the DAG's schedule.
      if (unpause && unpause.checked) await startSchedule(dag, answer);
    } catch (error) {
      if (!blame(fields, error)) showError(answer, error);
      send.disabled = !access.may_trigger;
    }
  };
  const buttons = h("div", { class: "buttons" }, h("span", { class: "note" }, note),
    airflowLink(`dags/${encodeURIComponent(dag.dag_id)}`, "Open the DAG"), send);
  const made = h("form", { class: "job", on: { submit } }, first.map((f) => f.element));
  if (rest.length) append(made, h("details", {}, h("summary", {}, `${rest.length} more fields`), h("div", { class: "job" }, rest.map((f) => f.element))));
  if (unpause) {
    append(made, h("div", { class: "field check" }, unpause, h("label", { for: "unpause" }, "Unpause the DAG"),
      h("small", {}, "A paused DAG queues the run and does not start it.")));
  }
  return append(made, [answer, buttons]);
}

/** Shows the error below the field that it is about; whether there is one. */
function blame(fields, error) {
  // Airflow's text goes on with the whole schema of the param.
  const [, name, message] = /^Invalid input for param ([^:]+): (.*)/.exec(error.message) || [];
  const wrong = fields.find((f) => f.name === name);
  if (!wrong) return false;
  const place = h("div", { class: "wrong" });
  append(wrong.element, place);
  // A pattern tells nobody more than the help of the field.
  showError(place, { message: message.replace(/ does not match ['"].*/, " is not what this field takes, see above") });
  const section = wrong.element.closest("details");
  if (section) section.open = true;
  wrong.element.querySelector("input, select, textarea").focus();
  return true;
}

/** Unpauses the DAG; if that fails, the run is queued all the same, so a second try would make another. */
async function startSchedule(dag, answer) {
  try {
    await airflow("PATCH", `dags/${encodeURIComponent(dag.dag_id)}?update_mask=is_paused`, { is_paused: false });
  } catch (error) {
    const place = h("div", {});
    append(answer, place);
    showError(place, error, "The DAG is still paused, and the run waits");
  }
}

/** One field: its element, and `into(conf)`, which adds its value unless it is the DAG's default. */
function field(name, param, given) {
  const schema = param.schema || {};
  const kinds = [schema.type].flat();
  const value = given === undefined ? param.value : given;
  const id = `field-${name}`;
  const title = schema.title || name;
  const help = param.description ? h("small", {}, param.description) : null;
  const wrap = (input, kind = "") => h("div", { class: `field ${kind}` }, input);
  const differs = (found) => given !== undefined || JSON.stringify(found) !== JSON.stringify(param.value);
  const put = (conf, found) => {
    if (differs(found)) conf[name] = found;
  };
  const made = (input, read) => ({
    name,
    section: schema.section,
    element: append(wrap([]), [h("label", { for: id }, title), input, help]),
    into: (conf) => put(conf, read()),
  });
  if (kinds.includes("boolean")) {
    const input = h("input", { type: "checkbox", id, checked: value === true });
    let touched = given !== undefined;
    input.addEventListener("change", () => { touched = true; });
    return {
      name,
      section: schema.section,
      element: append(wrap([], "check"), [input, h("label", { for: id }, title), help]),
      into: (conf) => { if (touched) put(conf, input.checked); },
    };
  }
  if (Array.isArray(schema.enum)) {
    const shown = schema.values_display || {};
    const input = h("select", { id }, schema.enum.map((v, i) => h("option", { value: String(i), selected: v === value }, shown[String(v)] || String(v))));
    return made(input, () => schema.enum[Number(input.value)]);
  }
  if (kinds.includes("array")) {
    const lines = Array.isArray(value) ? value : [];
    const input = h("textarea", { id, rows: Math.max(1, lines.length), spellcheck: "false", value: lines.join("\n") });
    const none = Array.isArray(param.value) ? [] : null;
    return made(input, () => {
      const found = input.value.split("\n").map((t) => t.trim()).filter(Boolean);
      return found.length ? found : none;
    });
  }
  if (kinds.includes("object")) {
    const input = h("textarea", { id, rows: 2, spellcheck: "false", value: value ? JSON.stringify(value) : "" });
    return made(input, () => (input.value.trim() ? parsed(name, input.value) : null));
  }
  const number = kinds.includes("integer") || kinds.includes("number");
  const input = h("input", { id, type: number ? "number" : "text", autocomplete: "off", spellcheck: "false", value: value === null || value === undefined ? "" : value });
  return made(input, () => {
    if (input.value === "") return kinds.includes("null") || param.value === null ? null : "";
    return number ? Number(input.value) : input.value;
  });
}

/** The object that was written into a field; the error names the field, as Airflow's errors do. */
function parsed(name, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`Invalid input for param ${name}: no JSON: ${error.message}`);
  }
}
