// Keeps a page true while it stands open: asks for changes, lets ages grow, and says when nobody answers.
//
// <section data-live hx-get="…" hx-trigger="live" …>  is asked for every 15 s while the page can be seen.
// <time data-age="seconds">                           was that old when the server wrote it.
(() => {
  const EVERY_MS = 15_000;
  const TICK_MS = 5_000;
  const etags = new Map(); // URL of a live part -> ETag of what stands on the page
  const born = new WeakMap(); // <time> -> when we first saw it
  let askedAt = Date.now();

  // The same words as diagnostics.quantities.span.
  const span = (seconds) => {
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
    if (minutes < 1) return `${Math.floor(seconds)} s`;
    if (hours < 1) return `${minutes} min`;
    if (days < 1) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
    return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
  };

  const growOlder = () => {
    for (const time of document.querySelectorAll("time[data-age]")) {
      if (!born.has(time)) born.set(time, performance.now());
      time.textContent = span(Number(time.dataset.age) + (performance.now() - born.get(time)) / 1000);
    }
  };

  const ask = () => {
    askedAt = Date.now();
    for (const part of document.querySelectorAll("[data-live]")) {
      part.dispatchEvent(new Event("live"));
    }
  };

  const say = (isLost) => {
    const line = document.getElementById("connection-lost");
    if (line) line.hidden = !isLost;
  };

  const tick = () => {
    growOlder();
    if (!document.hidden && Date.now() - askedAt >= EVERY_MS) ask();
  };

  document.addEventListener("DOMContentLoaded", growOlder);
  document.addEventListener("visibilitychange", tick);
  setInterval(tick, TICK_MS);

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const isLive = detail.triggeringEvent?.type === "live";
    if (isLive && etags.has(detail.path)) detail.headers["If-None-Match"] = etags.get(detail.path);
    // Empty fields of a filter say nothing: they stay out of the address.
    for (const [name, value] of [...detail.formData.entries()]) {
      if (detail.verb === "get" && value === "") detail.formData.delete(name);
    }
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, pathInfo } = event.detail;
    const answered = new URL(xhr.responseURL, location.href).pathname;
    if (answered !== new URL(pathInfo.requestPath, location.href).pathname) {
      event.preventDefault(); // sent elsewhere: the session has ended
      location.reload();
    }
  });

  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    const etag = detail.xhr.getResponseHeader("ETag");
    if (detail.successful && etag) etags.set(detail.pathInfo.requestPath, etag);
    say(!detail.successful && detail.xhr.status !== 304);
  });

  document.addEventListener("htmx:afterSettle", growOlder);
})();
