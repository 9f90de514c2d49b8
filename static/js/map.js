// Moves over the map by keys, and shows the facts of the GPU that is pointed at or has the focus.
//
// The facts are those of its title, a line each: name and state, what was measured, whose pods hold it.
(() => {
  const REST_MS = 120; // so that the way from a GPU to the facts about it may lead over others
  const CELLS = ".map-cells > a";
  let current = null; // the one that Tab reaches
  let shown = null;
  let timer = 0;

  const cells = () => [...document.querySelectorAll(CELLS)];
  const cellOf = (target) => (target instanceof Element ? target.closest(CELLS) : null);

  const reach = (cell) => {
    if (current && current !== cell) current.tabIndex = -1;
    current = cell;
    if (cell) cell.tabIndex = 0;
  };

  const ownerUrl = (words) => {
    const [, kind, name] = words.match(/^(\S+) ([^/]*\/.+)$/s) ?? [];
    if (!kind) return "";
    const url = new URL(location.href);
    url.searchParams.set("workload", `${kind}/${name}`);
    return url.href;
  };

  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  const ownersOf = (cell) => cell.title.split("\n").slice(2).filter(ownerUrl);

  const show = (cell) => {
    const panel = document.getElementById("map-details");
    if (!panel || !cell?.isConnected) return;
    shown = cell;
    const node = cell.closest("li").querySelector(".map-node .row-link");
    const [head, ...facts] = cell.title.split("\n");
    const parts = [element("strong", `${node?.title ?? ""} ${head}`)];
    for (const fact of facts) {
      const url = facts.indexOf(fact) > 0 ? ownerUrl(fact) : "";
      parts.push(url ? element("a", fact, { href: url, title: "Select it on the map (s)" }) : element("span", fact));
    }
    panel.replaceChildren(...parts);
  };

  const showSoon = (cell) => {
    clearTimeout(timer);
    timer = setTimeout(show, REST_MS, cell);
  };

  // The nearest cell in the next row of cells above or below.
  const across = (from, way) => {
    const start = from.getBoundingClientRect();
    let best = null;
    let bestAt = [Infinity, Infinity];
    for (const cell of cells()) {
      const box = cell.getBoundingClientRect();
      const dy = way * (box.top - start.top);
      if (dy < start.height / 2) continue;
      const at = [Math.round(dy), Math.abs(box.left - start.left)];
      if (at[0] < bestAt[0] || (at[0] === bestAt[0] && at[1] < bestAt[1])) [best, bestAt] = [cell, at];
    }
    return best;
  };

  const moved = (key, from) => {
    const all = cells();
    switch (key) {
      case "ArrowRight":
        return all[all.indexOf(from) + 1];
      case "ArrowLeft":
        return all[all.indexOf(from) - 1];
      case "ArrowDown":
        return across(from, 1);
      case "ArrowUp":
        return across(from, -1);
      case "Home":
        return all[0];
      case "End":
        return all.at(-1);
      default:
        return null;
    }
  };

  document.addEventListener("keydown", (event) => {
    const cell = cellOf(event.target);
    if (!cell || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (event.key === "s") {
      const [owner] = ownersOf(cell);
      if (owner) location.assign(ownerUrl(owner));
      return;
    }
    const next = moved(event.key, cell);
    if (!next) return;
    event.preventDefault();
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  });

  document.addEventListener("focusin", ({ target }) => {
    const cell = cellOf(target);
    if (!cell) return;
    clearTimeout(timer);
    reach(cell);
    show(cell);
  });

  document.addEventListener("pointerover", ({ target }) => {
    const cell = cellOf(target);
    if (cell) showSoon(cell);
    else clearTimeout(timer);
  });

  const settle = () => {
    reach(current?.isConnected ? current : document.querySelector(CELLS));
    if (shown?.isConnected) show(shown);
  };

  document.addEventListener("DOMContentLoaded", settle);
  document.addEventListener("htmx:afterSettle", settle);
})();
