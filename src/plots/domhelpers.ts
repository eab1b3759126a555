/** Create an element with a class and text content. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  text = ''
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

/** The nearest scrollable ancestor; null for the page itself. */
export function scrollParent(node: Element): Element | null {
  for (let parent = node.parentElement; parent; parent = parent.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(parent).overflowY)) {
      return parent;
    }
  }
  return null;
}

/** Make these nodes the children of `parent`, in this order, without moving those already in place. */
export function setChildren(parent: Element, nodes: readonly Element[]): void {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) {
    if (!wanted.has(child)) {
      child.remove();
    }
  }
  let next = parent.firstElementChild;
  for (const node of nodes) {
    if (node === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(node, next);
    }
  }
}
