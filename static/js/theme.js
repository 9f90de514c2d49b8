// The theme that was chosen here; without a choice, the system's. Runs before the page is drawn.
(() => {
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];

  const stored = () => {
    try {
      const theme = localStorage.getItem("theme");
      return order.includes(theme) ? theme : "auto";
    } catch {
      return "auto"; // storage is switched off
    }
  };

  const apply = (theme) => {
    if (theme === "auto") {
      delete root.dataset.theme;
    } else {
      root.dataset.theme = theme;
    }
    for (const name of document.querySelectorAll("[data-theme-name]")) {
      name.textContent = theme;
    }
  };

  apply(stored());
  document.addEventListener("DOMContentLoaded", () => apply(stored()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const next = order[(order.indexOf(stored()) + 1) % order.length];
    try {
      localStorage.setItem("theme", next);
    } catch {
      // It lasts until the next page then.
    }
    apply(next);
  });
})();
