// Copy buttons: <button data-copy="id of the element whose text is copied">. Without script the text can be selected.
(() => {
  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };

  const copy = async (element) => {
    // The clipboard API exists on HTTPS and loopback only; a dashboard on plain HTTP uses the selection.
    if (navigator.clipboard) {
      try {
        await navigator.clipboard.writeText(element.textContent);
        return true;
      } catch {
        // Not allowed here: try the other way.
      }
    }
    select(element);
    return document.execCommand("copy");
  };

  const usual = new WeakMap(); // label -> its words, while it says something else

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const element = document.getElementById(button.dataset.copy);
    const label = button.querySelector("[data-copy-label]") ?? button;
    if (!usual.has(label)) usual.set(label, label.textContent);
    const isCopied = await copy(element);
    if (!isCopied) select(element);
    label.textContent = isCopied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (label.textContent = usual.get(label)), 2000);
  });
})();
