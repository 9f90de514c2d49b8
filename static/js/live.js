// Keeps a page true while it stands open: asks for changes, lets ages grow, and says when nobody answers or takes what
// a form sends.
//
// <section data-live hx-get="…" hx-trigger="live" …>  is asked for every 15 s while the page can be seen; the answer
//                                                     is morphed into it (morph.js), whatever its hx-swap says.
// <time data-age="seconds">                           was that old when the server wrote it.
(() => {
  const EVERY_MS = 15_000;
  const TICK_MS = 5_000;
  const TAKEN_WITHIN_MS = 30_000; // what a form sends
  const etags = new Map(); // URL of a live part -> ETag of what stands on the page
  const born = new WeakMap(); // <time> -> what the server wrote, and when we first saw that
  let askedAt = Date.now();
  let isSignedOut = false;

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
      const written = `${time.dateTime} ${time.dataset.age}`;
      if (born.get(time)?.written !== written) born.set(time, { written, at: performance.now() });
      const words = span(Number(time.dataset.age) + (performance.now() - born.get(time).at) / 1000);
      if (time.textContent !== words) time.textContent = words; // else a selection in it would be lost
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

  // What became of what a form sent; no words where it was taken. Loading the page again helps where it was refused.
  const tell = (words, isRefused = false) => {
    const line = document.getElementById("not-saved");
    line.querySelector("[data-words]").textContent = words;
    line.querySelector("[data-reload]").hidden = !isRefused;
    line.hidden = !words;
  };

  const tellSignedOut = () => {
    isSignedOut = true;
    tell("Your sign-in has expired: nothing was saved.", true);
  };

  const tellOutcome = ({ xhr: { status } }) => {
    if (status === 403) tellSignedOut(); // the token that goes with every form is of an earlier sign-in
    else if (status === 0 || status >= 500) tell("The server did not answer: this may not have been saved.");
    else if (status >= 400) tell(`The server refused it (${status}): nothing was saved.`, true);
    else if (!isSignedOut) tell("");
  };

  const tick = () => {
    growOlder();
    if (!document.hidden && Date.now() - askedAt >= EVERY_MS) ask();
  };

  document.addEventListener("DOMContentLoaded", growOlder);
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-reload]")) location.reload();
  });
  document.addEventListener("visibilitychange", tick);
  setInterval(tick, TICK_MS);

  const isLive = (detail) => detail.requestConfig?.triggeringEvent?.type === "live";
  const isForm = (detail) => detail.requestConfig.verb !== "get";

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.triggeringEvent?.type === "live") {
      detail.timeout = EVERY_MS;
      if (etags.has(detail.path)) detail.headers["If-None-Match"] = etags.get(detail.path);
    }
    if (detail.verb !== "get") detail.timeout = TAKEN_WITHIN_MS;
    // Empty fields of a filter say nothing: they stay out of the address.
    for (const [name, value] of [...detail.formData.entries()]) {
      if (detail.verb === "get" && value === "") detail.formData.delete(name);
    }
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, pathInfo, target } = event.detail;
    const answered = new URL(xhr.responseURL, location.href).pathname;
    if (answered !== new URL(pathInfo.requestPath, location.href).pathname) {
      event.preventDefault(); // sent elsewhere: the session has ended
      if (isForm(event.detail)) tellSignedOut();
      else if (!isSignedOut) location.reload(); // else what was written would be lost unread
    }
    // A filter was faster: this answers what nobody asks any more.
    if (isLive(event.detail) && target.getAttribute("hx-get") !== pathInfo.requestPath) event.detail.shouldSwap = false;
    const etag = xhr.getResponseHeader("ETag");
    if (event.detail.shouldSwap && etag) etags.set(pathInfo.requestPath, etag);
  });

  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (isForm(detail)) {
      tellOutcome(detail);
      return;
    }
    const { status } = detail.xhr;
    const isAnswered = detail.successful || status === 304;
    // What a reader asked for and was refused is told where it was asked.
    if (isAnswered || isLive(detail) || status === 0 || status >= 500) say(!isAnswered);
  });

  document.addEventListener("htmx:afterSettle", growOlder);
  document.addEventListener("htmx:historyRestore", () => etags.clear());
})();
