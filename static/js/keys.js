// Keys for those who would rather not reach for the mouse; partials/keys.html lists them in a dialog.
//
// Single letters get in the way of speech input and of some screen readers (WCAG 2.1.4), so they can be switched off.
(() => {
  const WAIT_MS = 1_500; // between `g` and the letter of a section
  let gAt = -Infinity;
  let lastRow = -1; // where j and k go on from when the row that had the focus is gone

  const dialog = () => document.getElementById("keys");

  const areOn = () => {
    try {
      return localStorage.getItem("keys") !== "off";
    } catch {
      return true; // storage is switched off
    }
  };

  const set = (isOn) => {
    try {
      localStorage.setItem("keys", isOn ? "on" : "off");
    } catch {
      // It lasts until the next page then.
    }
  };

  const isSeen = (element) => element.checkVisibility?.() ?? element.getClientRects().length > 0;

  const isTypedInto = (element) =>
    element.isContentEditable ||
    ["TEXTAREA", "SELECT"].includes(element.nodeName) ||
    (element.nodeName === "INPUT" && !["radio", "checkbox", "button", "submit", "reset"].includes(element.type));

  const open = () => {
    if (!dialog()) return;
    dialog().querySelector("[data-keys-switch]").checked = areOn();
    dialog().showModal();
  };

  const search = () => {
    const field = [...document.querySelectorAll("main input[type=search]")].find(isSeen);
    field?.focus();
    field?.select();
    return Boolean(field);
  };

  const step = (by) => {
    const rows = [...document.querySelectorAll("main .row-link")].filter(isSeen);
    if (!rows.length) return false;
    const inRow = rows.findIndex((row) => row === document.activeElement);
    const from = inRow >= 0 ? inRow : by > 0 ? lastRow - (lastRow < 0 ? 0 : 1) : lastRow;
    lastRow = Math.min(Math.max(from + by, 0), rows.length - 1);
    rows[lastRow].focus();
    rows[lastRow].scrollIntoView({ block: "nearest" });
    return true;
  };

  const go = (letter) => {
    const link = document.querySelector(`nav a[data-key="${CSS.escape(letter)}"]`);
    link?.click();
    return Boolean(link);
  };

  const pressed = (key) => {
    if (performance.now() - gAt < WAIT_MS) {
      gAt = -Infinity;
      return go(key);
    }
    switch (key) {
      case "g":
        gAt = performance.now();
        return true;
      case "/":
        return search();
      case "j":
        return step(1);
      case "k":
        return step(-1);
      case "?":
        open();
        return true;
      default:
        return false;
    }
  };

  document.addEventListener("keydown", (event) => {
    const isChord = event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
    if (isChord || event.defaultPrevented || !areOn() || isTypedInto(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (pressed(event.key)) event.preventDefault();
  });

  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-keys-open]")) open();
  });

  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-keys-switch]")) set(target.checked);
  });
})();
