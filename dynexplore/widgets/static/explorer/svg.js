// @ts-check
/**
 * Shapes of the page: new ones, and a drawing that came as text, of which only shapes and texts are taken, no links, no scripts.
 */

/** The elements that drawings are made of. */
const SHAPES = new Set(["svg", "g", "path", "polygon", "polyline", "ellipse", "rect", "text", "title"]);

/** The attributes that are taken over. */
const FACTS = new Set(
  ("class d points fill stroke stroke-dasharray stroke-width x y rx ry cx cy width height viewBox transform text-anchor " +
    "font-family font-size").split(" "),
);

/**
 * The SVG element of a drawing. Ids become `data-id`: the page may hold several drawings of the same graph.
 * @param {string} text
 * @returns {Element}
 */
export function adopted(text) {
  const parsed = new DOMParser().parseFromString(text.slice(Math.max(0, text.indexOf("<svg"))), "image/svg+xml");
  return /** @type {Element} */ (copied(parsed.documentElement));
}

/** @param {Element} element @returns {Node} */
function copied(element) {
  const children = [];
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE && element.matches("text, title")) children.push(document.createTextNode(child.nodeValue ?? ""));
    else if (child.nodeType === Node.ELEMENT_NODE) children.push(copied(/** @type {Element} */ (child)));
  }
  const made = document.createElementNS(element.namespaceURI, SHAPES.has(element.localName) ? element.localName : "g");
  for (const { name, value } of SHAPES.has(element.localName) ? element.attributes : []) {
    if (name === "id") made.setAttribute("data-id", value);
    else if (FACTS.has(name)) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** The namespace of drawings, from the browser: a page that names no address cannot fetch one. */
const SVG = /** @type {Element} */ (new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg")).namespaceURI;

/** @param {string} tag @param {Record<string, string | number>} facts @param {...(Node | string)} children */
export function shape(tag, facts, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}
