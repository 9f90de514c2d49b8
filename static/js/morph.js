// Changes what stands on a page into what the server sent, node by node, instead of replacing it.
//
// Whatever is the same stays the very same node, so that focus, scroll positions, selected text, open <details>,
// half-typed fields and the row under the pointer survive. hx-swap="morph" uses it; live.js does for every live part.
//
// data-kept on an element: its children belong to a script (a chart); only its own attributes are brought up to date.
(() => {
  // What a reader sets by acting on the page; the server's opinion comes too late.
  const READERS_OWN = new Set(["open"]);
  const KEPT_OWN = new Set(["class", "style"]);

  // getAttribute, because a form with a field named "id" has that field as its property.
  const idOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? (node.getAttribute("id") ?? "") : "");
  // Rows rarely have an id of their own, but something in them has, or a link says whose row it is.
  const innerKey = (node) =>
    node.querySelector("[id]")?.getAttribute("id") ?? node.querySelector("a.row-link")?.getAttribute("href") ?? "";
  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? idOf(node) || innerKey(node) : "");
  // Node -> key; rows about the same thing are told apart by their order.
  const keysOf = (nodes) => {
    const times = new Map();
    return [...nodes].map((node) => {
      const key = keyOf(node);
      times.set(key, (times.get(key) ?? 0) + 1);
      return [node, key && `${times.get(key)} ${key}`];
    });
  };
  const isSameKind = (now, next) => now.nodeName === next.nodeName && idOf(now) === idOf(next);

  const morphAttributes = (now, next) => {
    const isKept = next.hasAttribute("data-kept");
    const isLeft = (name) =>
      READERS_OWN.has(name) ||
      (isKept && KEPT_OWN.has(name)) ||
      // A field that was typed into ignores a new `value` attribute by itself; one that only has the focus does not.
      (name === "value" && now === document.activeElement);
    for (const { name, value } of next.attributes) {
      if (!isLeft(name) && now.getAttribute(name) !== value) now.setAttribute(name, value);
    }
    for (const { name } of isKept ? [] : [...now.attributes]) {
      if (!isLeft(name) && !next.hasAttribute(name)) now.removeAttribute(name);
    }
  };

  // A list that may stand open, a choice that was made, a text that is about to be written.
  const touched = new WeakSet();
  document.addEventListener("input", ({ target }) => touched.add(target), true);
  const isInHand = (node) =>
    ["SELECT", "TEXTAREA"].includes(node.nodeName) && (node === document.activeElement || touched.has(node));

  const morph = (now, next) => {
    if (now.isEqualNode(next)) return;
    if (now.nodeType !== Node.ELEMENT_NODE) {
      now.replaceWith(next);
      return;
    }
    morphAttributes(now, next);
    if (!isInHand(now) && !next.hasAttribute("data-kept")) morphChildren(now, next);
  };

  // moveBefore keeps focus and scroll positions of what it moves; browsers without it lose them for moved rows alone.
  const move = (parent, node, before) =>
    parent.moveBefore ? parent.moveBefore(node, before) : parent.insertBefore(node, before);

  const morphChildren = (now, next) => {
    const wanted = [...next.childNodes];
    const keys = new Map([...keysOf(now.childNodes), ...keysOf(wanted)]);
    const key = (node) => keys.get(node) ?? "";
    const wantedKeys = new Set(wanted.map(key).filter(Boolean));
    const standing = new Map([...now.children].map((child) => [key(child), child]));
    standing.delete("");
    let at = now.firstChild; // everything before it is done

    const isWantedLater = (node, from) => {
      if (node.nodeType !== Node.ELEMENT_NODE) return false;
      const isUnclaimed = (other) => isSameKind(node, other) && !standing.has(key(other));
      return wantedKeys.has(key(node)) || wanted.slice(from).some(isUnclaimed);
    };

    // The standing node to be changed into `child`: the one with its key, else the next one of its kind that no later
    // sibling has a better claim to.
    const counterpart = (child, index) => {
      const keyed = standing.get(key(child));
      if (keyed && isSameKind(keyed, child)) return keyed;
      for (let node = at; node; node = node.nextSibling) {
        if (isSameKind(node, child) && !wantedKeys.has(key(node))) return node;
        if (child.nodeType !== Node.ELEMENT_NODE || isWantedLater(node, index + 1)) return null;
      }
      return null;
    };

    wanted.forEach((child, index) => {
      const node = counterpart(child, index);
      if (!node) {
        now.insertBefore(child, at);
        return;
      }
      standing.delete(key(node)); // never taken twice
      while (at !== node && !isWantedLater(at, index + 1)) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      if (at === node) at = at.nextSibling;
      else move(now, node, at);
      morph(node, child);
    });
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  const words = (element) => element.textContent.trim().replace(/\s+/g, " ");

  // `target` becomes `next`; a field that had the focus has it still, with the caret where it was.
  const morphed = (target, next) => {
    const focused = document.activeElement;
    const [start, end] = [focused?.selectionStart, focused?.selectionEnd];
    morph(target, next);
    if (focused?.isConnected && focused !== document.activeElement) {
      focused.focus({ preventScroll: true });
      if (Number.isInteger(start)) focused.setSelectionRange(start, end);
    }
    htmx.process(target);
  };

  let isLive = false; // the answer that is being swapped in is that to a live part

  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    isLive = detail.requestConfig.triggeringEvent?.type === "live";
    if (isLive) detail.swapOverride = "morph";
  });

  // What comes out of band: never a new status line with the words of the old one, which would be read out again.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    const isWhole = fragment.nodeType === Node.DOCUMENT_FRAGMENT_NODE; // else: the element whose content is meant
    if (isLive && isWhole) morphed(target, fragment.firstElementChild);
    const isSaidAlready = !isWhole && words(fragment) === words(target);
    if ((isLive && isWhole) || isSaidAlready) event.detail.shouldSwap = false;
  });

  htmx.defineExtension("morph", {
    isInlineSwap: (style) => style === "morph",
    handleSwap(style, target, fragment) {
      if (style !== "morph") return false;
      const next = fragment.querySelector(`#${CSS.escape(target.id)}`) ?? fragment.firstElementChild;
      if (next?.nodeName === target.nodeName) morphed(target, next);
      else target.replaceWith(...fragment.childNodes);
      return true;
    },
  });
})();
