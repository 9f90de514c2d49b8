// Draws every [data-figure] (a Plotly figure as JSON, from diagnostics/charts.py) in the colours of the theme.
//
// Plotly is 4.8 MB: it is loaded when a figure comes near the window, and never holds the page up. Its own style sheet
// would be refused by the Content Security Policy; css/plotly.css holds it, and the id and class of the link tell Plotly
// so. Arrow keys on a figure move through its values, which are read out.
(() => {
  const { plotly, styles } = document.currentScript.dataset;
  const ASK_AGAIN_MS = 2_000;
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "6px,2px,2px,2px", "2px,6px"];
  const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true, showTips: false };
  // The bundle brings maplibre, which adds a <style> of this id for maps unless there is one. It would be refused.
  const MAPS_STYLE = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";
  const drawn = new WeakMap(); // figure -> JSON that it was drawn from
  const reading = new WeakMap(); // figure -> which step the keyboard is at
  let bundle;

  const added = (name, attributes) =>
    new Promise((resolve, reject) => {
      const element = Object.assign(document.createElement(name), attributes);
      element.addEventListener("load", resolve);
      element.addEventListener("error", reject);
      document.head.append(element);
    });

  const loaded = () => {
    if (!document.getElementById(MAPS_STYLE)) {
      document.head.append(Object.assign(document.createElement("meta"), { id: MAPS_STYLE }));
    }
    bundle ??= Promise.all([
      added("link", { rel: "stylesheet", href: styles, id: "plotly.js-style-global", className: "no-inline-styles" }),
      added("script", { src: plotly }),
    ]);
    return bundle;
  };

  // What a colour token comes to in this theme.
  const colour = (token) => {
    const probe = document.createElement("span");
    probe.hidden = true;
    probe.style.color = `var(${token})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  const lineOf = ({ line, meta }) => {
    if (meta.style === "edge") return { ...line, color: colour("--text-muted"), dash: "dot" };
    const place = meta.style === "middle" ? 0 : meta.number;
    return { ...line, color: colour(`--trace-${(place % 8) + 1}`), dash: DASHES[place % 8] };
  };

  const themed = ({ data, layout }, period) => {
    const [text, faint, line, surface] = ["--text", "--text-muted", "--line", "--raised"].map(colour);
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, tickfont: { color: faint } };
    const family = getComputedStyle(document.body).fontFamily;
    return {
      data: data.map((trace) => ({ ...trace, line: lineOf(trace) })),
      layout: {
        ...layout,
        paper_bgcolor: "transparent",
        plot_bgcolor: "transparent",
        font: { family, size: 12, color: text },
        xaxis: { ...layout.xaxis, ...axis },
        yaxis: { ...layout.yaxis, ...axis },
        hoverlabel: { bgcolor: surface, bordercolor: line, font: { family, size: 12, color: text } },
        shapes: layout.shapes.map((shape) => ({ ...shape, fillcolor: colour("--hatch"), opacity: 0.35 })),
        dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
        uirevision: period, // what was zoomed into stays so when the values change
      },
    };
  };

  const draw = async (figure) => {
    const json = figure.dataset.figure;
    if (drawn.get(figure) === json) return;
    drawn.set(figure, json);
    try {
      await loaded();
      if (drawn.get(figure) !== json || !figure.isConnected) return; // another one came meanwhile
      const { data, layout } = themed(JSON.parse(json), figure.dataset.period);
      await Plotly.react(figure, data, layout, CONFIG);
    } catch {
      figure.textContent = "This plot could not be drawn. The table below holds its numbers.";
    }
  };

  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) draw(target);
    },
    { rootMargin: "300px" },
  );

  // What was never near the window waits until it is.
  const look = () => {
    for (const figure of document.querySelectorAll("[data-figure]")) {
      if (drawn.has(figure)) draw(figure);
      else near.observe(figure);
    }
  };

  const repaint = () => {
    for (const figure of document.querySelectorAll("[data-figure]")) {
      if (!drawn.has(figure)) continue;
      drawn.set(figure, "");
      draw(figure);
    }
  };

  // Plotly knows no zones: it counts what it is told as if it were UTC.
  const timeAt = ({ x0, dx }, step) => Date.parse(`${x0.replace(" ", "T")}Z`) + step * dx;

  // The keyboard's way through the values: to the next step at which there is any.
  const read = (figure, key) => {
    const traces = figure.data ?? [];
    const last = Math.max(...traces.map(({ y }) => y.length)) - 1;
    const isKnown = (step) => traces.some(({ y }) => y[step] !== null && y[step] !== undefined);
    const now = reading.get(figure);
    const way = key === "ArrowLeft" || key === "End" ? -1 : 1;
    let step = { Home: 0, End: last }[key] ?? (now === undefined ? last : now + way);
    while (step >= 0 && step <= last && !isKnown(step)) step += now === undefined ? -1 : way;
    if (!(step >= 0 && step <= last)) return;
    reading.set(figure, step);
    const at = timeAt(traces[0], step);
    Plotly.Fx.hover(figure, { xval: at }, "xy");
    const unit = figure.layout.yaxis.ticksuffix;
    const known = traces.filter(({ y }) => y[step] !== null && y[step] !== undefined);
    const words = known.map(({ name, y }) => `${traces.length > 1 ? `${plain(name)} ` : ""}${y[step]}${unit}`);
    const line = figure.parentElement.querySelector("[data-reading]");
    if (line) line.textContent = `${new Date(at).toISOString().slice(0, 16).replace("T", " ")}: ${words.join(", ")}`;
  };

  const plain = (name) => new DOMParser().parseFromString(name, "text/html").documentElement.textContent;

  document.addEventListener("keydown", (event) => {
    const figure = event.target.closest?.("[data-figure]");
    if (!figure || event.altKey || event.ctrlKey || event.metaKey || !window.Plotly) return;
    if (event.key === "Escape") {
      reading.delete(figure);
      Plotly.Fx.unhover(figure);
    } else if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
      event.preventDefault();
      read(figure, event.key);
    }
  });

  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  document.addEventListener("htmx:afterSettle", look);
  look();

  // An answer of Prometheus is awaited: ask for it more often than for other changes (live.js).
  setInterval(() => {
    if (document.hidden) return;
    for (const part of document.querySelectorAll("[data-asking]")) part.dispatchEvent(new Event("live"));
  }, ASK_AGAIN_MS);
})();
