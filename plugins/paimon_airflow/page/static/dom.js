// Builds elements.  Text from tables only ever becomes a text node or the value of a known attribute,
// so no name, option or message can become markup.

const SVG = "http://www.w3.org/2000/svg";
const PLAIN = new Set([
  "class", "id", "title", "type", "name", "placeholder", "role", "for", "tabindex", "colspan", "rowspan",
  "scope", "rows", "min", "max", "step", "autocomplete", "spellcheck", "d", "x", "y", "x1", "x2", "y1",
  "y2", "cx", "cy", "r", "rx", "width", "height", "viewBox", "preserveAspectRatio", "points",
  "text-anchor", "transform", "label", "method", "lang", "enterkeyhint",
]);
const SWITCHES = new Set(["checked", "disabled", "selected", "open", "hidden", "required", "readonly"]);

/** An HTML element; `props.on` are its listeners, children are elements or become text. */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** A link to another server, opened in a tab of its own; only the text if the address is no http(s) one. */
export function outside(address, text, title) {
  let found = null;
  try {
    found = new URL(address);
  } catch {
    // not an address
  }
  if (found === null || !["http:", "https:"].includes(found.protocol)) return h("span", { title }, text);
  const link = h("a", { title }, text);
  link.href = found.href;
  link.target = "_blank";
  link.rel = "noreferrer noopener";
  return link;
}

/** An SVG element. */
export function s(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "value") {
      element.value = String(value);
    } else if (name === "href") {
      element.setAttribute("href", ownAddress(value));
    } else if (SWITCHES.has(name)) {
      element.setAttribute(name, "");
    } else if (PLAIN.has(name) || name.startsWith("aria-") || name.startsWith("data-")) {
      element.setAttribute(name, String(value));
    } else {
      throw new Error(`no attribute ${name}`);
    }
  }
  append(element, children);
  return element;
}

/** Adds children; strings and numbers become text, null and false are left out. */
export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Replaces what the element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** The address if it belongs to this server; an error otherwise ("javascript:", other hosts). */
export function ownAddress(value) {
  const url = new URL(String(value), document.baseURI);
  if (url.origin !== location.origin || !/^https?:$/.test(url.protocol)) {
    throw new Error("an address of another server");
  }
  return url.pathname + url.search + url.hash;
}
