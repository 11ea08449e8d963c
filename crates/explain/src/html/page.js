"use strict";
// Draws the data of the page: one function for each kind of section. Names are data of a program:
// they get into the document as text only.
const errors = [];
window.addEventListener("error", event => {
  errors.push(String(event.message));
  document.body.dataset.errors = errors.join("; ");
});

const SVG = "http://www.w3.org/2000/svg";
const page = JSON.parse(document.getElementById("data").textContent);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  for (const child of children) element.append(child);
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 5 });
const shown = value => (typeof value === "number" ? number.format(value) : value === null ? "" : String(value));
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const tip = document.getElementById("tip");
function hover(element, text) {
  element.addEventListener("pointermove", event => {
    const told = text(event);
    tip.hidden = !told;
    tip.textContent = told || "";
    tip.style.left = Math.min(event.clientX + 12, window.innerWidth - 320) + "px";
    tip.style.top = event.clientY + 14 + "px";
  });
  element.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// A table whose heads sort it and whose rows can be searched.
function table(body) {
  const box = make("div");
  const search = make("input", { type: "search", placeholder: "Search", "aria-label": "Search the table" });
  const rows = make("tbody");
  const state = { by: -1, up: false, words: "" };
  const heads = body.heads.map((name, at) => {
    const button = make("button", { type: "button" }, name);
    const head = make("th", { scope: "col", "aria-sort": "none" }, button);
    button.addEventListener("click", () => {
      const numeric = body.rows.some(row => typeof row[at] === "number");
      state.up = state.by === at ? !state.up : !numeric;
      state.by = at;
      fill();
    });
    return head;
  });
  function compare(a, b) {
    const [x, y] = [a[state.by], b[state.by]];
    const order = typeof x === "number" && typeof y === "number" ? x - y : shown(x).localeCompare(shown(y));
    return state.up ? order : -order;
  }
  function fill() {
    heads.forEach((head, at) =>
      head.setAttribute("aria-sort", at !== state.by ? "none" : state.up ? "ascending" : "descending"));
    let list = body.rows;
    if (state.words) list = list.filter(row => row.some(cell => shown(cell).toLowerCase().includes(state.words)));
    if (state.by >= 0) list = [...list].sort(compare);
    rows.replaceChildren(...list.map(row => make("tr", {}, ...row.map((cell, at) =>
      make("td", { class: typeof cell === "number" ? "number" : at === 0 ? "name" : "" }, shown(cell))))));
  }
  search.addEventListener("input", () => { state.words = search.value.toLowerCase(); fill(); });
  fill();
  box.append(search, make("div", { class: "scroll", tabindex: "0" },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), rows)));
  if (body.more) box.append(make("p", { class: "legend" }, `and ${number.format(body.more)} more rows, which the tables of the command line show`));
  return box;
}

function text(body) {
  return make("div", {}, ...body.lines.map(line => make("pre", {}, line || "\u00a0")));
}

const STROKES = ["#0b5cad", "#b3261e", "#2e7d32", "#8e44ad", "#b7791f", "#00838f", "#6d4c41", "#455a64"];

function chart(body) {
  const [width, height, left, bottom] = [760, 300, 70, 40];
  const points = body.series.flatMap(series => series.points);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height + 20}`, role: "img", "aria-label": `${body.y} by ${body.x}` });
  if (!points.length) return svg;
  const scale = value => (body.log ? Math.log2(Math.max(value, 1)) : value);
  const [low, high] = [Math.min(...points.map(p => scale(p[0]))), Math.max(...points.map(p => scale(p[0])))];
  const top = Math.max(...points.map(p => p[1])) || 1;
  const x = value => left + (width - left - 20) * (high > low ? (scale(value) - low) / (high - low) : 0.5);
  const y = value => 10 + (height - bottom - 10) * (1 - value / top);
  for (let i = 0; i <= 4; i++) {
    const value = (top * i) / 4;
    svg.append(draw("line", { class: "axis", x1: left, x2: width - 20, y1: y(value), y2: y(value) }),
      draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number.format(Number(value.toPrecision(3)))));
  }
  const ticks = [...new Set(points.map(p => p[0]))].sort((a, b) => a - b);
  const every = Math.max(1, Math.ceil(ticks.length / 9));
  ticks.filter((_, i) => i % every === 0).forEach(value =>
    svg.append(draw("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, short(value))));
  svg.append(draw("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, body.x),
    draw("text", { x: left, y: height + 14, "text-anchor": "start" }, body.y));
  body.series.forEach((series, at) => {
    const stroke = STROKES[at % STROKES.length];
    const line = series.points.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ");
    svg.append(draw("polyline", { points: line, fill: "none", stroke, "stroke-width": 2 }));
    for (const p of series.points) {
      const dot = draw("circle", { cx: x(p[0]), cy: y(p[1]), r: 3, fill: stroke });
      dot.append(draw("title", {}, `${series.name}: ${short(p[0])}, ${number.format(p[1])}`));
      svg.append(dot);
    }
  });
  const legend = make("p", { class: "legend" });
  body.series.forEach((series, at) => {
    const mark = make("span", {}, "● ");
    mark.style.color = STROKES[at % STROKES.length];
    legend.append(mark, series.name + "  ");
  });
  return make("div", {}, svg, legend);
}

function short(value) {
  for (const [unit, size] of [["G", 2 ** 30], ["M", 2 ** 20], ["K", 2 ** 10]])
    if (value >= size && Number.isInteger((value / size) * 4)) return value / size + unit;
  return number.format(value);
}

// Rows are pieces of memory, columns times; the picture is as many dots as there are digits.
function map(body) {
  const one = (what, field) => {
    const [rows, columns] = [body.rows.length, body.columns];
    const canvas = make("canvas", { width: columns, height: Math.max(rows, 1), role: "img", "aria-label": `${what} by address and time` });
    canvas.style.width = "100%";
    canvas.style.height = Math.min(Math.max(rows * 3, 60), 720) + "px";
    const context = canvas.getContext("2d");
    const ink = field === "misses" ? colour("--hot") : colour("--accent");
    body.rows.forEach((row, y) => {
      for (let x = 0; x < columns; x++) {
        const level = Number(row[field][x]);
        if (level) {
          context.globalAlpha = 0.1 + 0.1 * level;
          context.fillStyle = ink;
          context.fillRect(x, y, 1, 1);
        }
      }
    });
    hover(canvas, event => {
      const box = canvas.getBoundingClientRect();
      const row = body.rows[Math.floor(((event.clientY - box.top) / box.height) * rows)];
      const at = Math.floor(((event.clientX - box.left) / box.width) * columns);
      return row && `${row.object}, ${row.from} and ${number.format(row.bytes)} bytes on; access ${number.format(at * body.step)} and after`;
    });
    return make("figure", { style: "margin:0" }, make("figcaption", {}, what), canvas);
  };
  return make("div", { class: "pair" }, one("accesses", "accesses"), one("misses", "misses"));
}

function matrix(body) {
  const box = make("div");
  const list = make("ul", { class: "cycles" });
  for (const cycle of body.cycles) list.append(make("li", {}, cycle));
  box.append(body.cycles.length ? list : make("p", {}, "No cycle of mutual eviction."));
  const most = Math.max(1, ...body.cells.map(cell => cell[2]));
  const of = new Map(body.cells.map(([owner, by, n]) => [owner + " " + by, n]));
  const head = make("tr", {}, make("th", {}, "loses lines to →"), ...body.names.map((name, at) => make("th", { title: name }, String(at + 1))));
  const rows = body.names.map((name, owner) => make("tr", {}, make("td", { class: "name" }, `${owner + 1} ${name}`),
    ...body.names.map((other, by) => {
      const n = of.get(owner + " " + by) || 0;
      const cell = make("td", { class: "number", title: `${name} loses ${number.format(n)} lines to ${other}` }, n ? number.format(n) : "");
      if (n) cell.style.background = `color-mix(in srgb, var(--hot) ${Math.round((60 * n) / most)}%, transparent)`;
      return cell;
    })));
  box.append(make("div", { class: "scroll", tabindex: "0" }, make("table", { class: "matrix" }, make("thead", {}, head), make("tbody", {}, ...rows))));
  return box;
}

function timelines(body) {
  const box = make("div", { class: "spark" });
  body.names.forEach((name, at) => {
    const svg = draw("svg", { viewBox: "0 0 640 40", role: "img", "aria-label": `${name} over time`, preserveAspectRatio: "none" });
    const bars = (digits, fill) => [...digits].forEach((digit, x) => {
      const height = Number(digit) * 4.4;
      const width = 640 / digits.length;
      if (height) svg.append(draw("rect", { x: x * width, y: 40 - height, width: width - 1, height, fill }));
    });
    bars(body.accesses[at], colour("--bar"));
    bars(body.misses[at], colour("--hot"));
    box.append(make("span", {}, name), svg);
  });
  return box;
}

function source(body) {
  const box = make("div");
  body.files.forEach((file, number_) => {
    const most = body.heads.map((_, at) => Math.max(1, ...file.lines.map(line => line[2][at] || 0)));
    const rows = file.lines.map(([line, content, figures]) => make("tr", {},
      ...body.heads.map((_, at) => {
        const value = figures[at];
        const cell = make("td", { class: "number heat" }, value ? number.format(value) : "");
        cell.style.setProperty("--part", value ? `${Math.round((100 * value) / most[at])}%` : "0%");
        return cell;
      }), make("td", { class: "number" }, String(line)), make("td", { class: "text" }, content)));
    const heads = [...body.heads, "line", file.note || "source"].map(name => make("th", { scope: "col" }, name));
    const details = make("details", number_ < 3 ? { open: "" } : {}, make("summary", {}, file.name),
      make("div", { class: "scroll", tabindex: "0" }, make("table", { class: "source" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))));
    box.append(details);
  });
  return box;
}

// A box for each function, as wide as its misses, below the one that called it. A click, or Enter,
// makes it the whole width.
function icicle(root) {
  const box = make("div");
  const path = make("p", { class: "legend" });
  const [width, row] = [1000, 22];
  function render(from, above) {
    const depth = node => 1 + Math.max(0, ...node.calls.map(depth));
    const svg = draw("svg", { viewBox: `0 0 ${width} ${Math.min(depth(from), 40) * row}`, role: "group", "aria-label": "Call paths by misses" });
    const whole = Math.max(from.misses, 1);
    const put = (node, x, level) => {
      const size = (width * node.misses) / whole;
      if (size < 1 || level >= 40) return;
      const group = draw("g", { tabindex: "0", role: "button" });
      const part = (100 * node.misses) / Math.max(root.misses, 1);
      const label = `${node.name}: ${number.format(node.misses)} misses (${part.toFixed(1)}%), ${number.format(node.accesses)} accesses`;
      group.append(draw("title", {}, label), draw("rect", { x, y: level * row, width: Math.max(size - 1, 0.5), height: row - 2,
        fill: `hsl(${210 - 190 * Math.min(1, node.misses / Math.max(node.accesses, 1) * 4)} 55% 60%)` }));
      if (size > 40) group.append(draw("text", { x: x + 4, y: level * row + 14 }, node.name.slice(0, Math.floor(size / 7))));
      const zoom = () => render(node === from && above.length ? above[above.length - 1] : node,
        node === from ? above.slice(0, -1) : [...above, from]);
      group.addEventListener("click", zoom);
      group.addEventListener("keydown", event => { if (event.key === "Enter") zoom(); });
      svg.append(group);
      let next = x;
      for (const call of node.calls) {
        put(call, next, level + 1);
        next += (width * call.misses) / whole;
      }
    };
    put(from, 0, 0);
    path.textContent = [...above, from].map(node => node.name).join(" › ");
    box.replaceChildren(path, svg);
  }
  render(root, []);
  return box;
}

const DRAW = { text, table, chart, map, matrix, timelines, source, icicle };

document.getElementById("title").textContent = page.title;
const main = document.getElementById("main");
for (const section of page.sections) {
  const place = make("section", { id: section.id, "aria-labelledby": section.id + "-title" });
  place.append(make("h2", { id: section.id + "-title" }, section.title));
  if (section.about) place.append(make("p", { class: "about" }, section.about));
  place.append(DRAW[section.body.kind](section.body));
  main.append(place);
  document.getElementById("nav").append(make("a", { href: "#" + section.id }, section.title));
}
// j and k go from view to view.
document.addEventListener("keydown", event => {
  if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const all = [...main.children];
  const at = all.findIndex(place => place.getBoundingClientRect().bottom > 100);
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  if (next) next.scrollIntoView();
});
document.body.dataset.drawn = String(page.sections.length);
