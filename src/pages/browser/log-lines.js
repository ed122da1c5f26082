/** A log of any length in a box that scrolls: only the lines near the visible ones are in the page. */

// Lines that are fetched, shown and removed together.
const size = 200;
// A browser cannot make an element much higher.
const mostLines = 700_000;
const kept = 8;

/** `counts` has the number of lines of each step that has changed. */
/** @typedef {{ total: number, from: number, html: string, counts: Record<string, number> }} NewLines */

/**
 * @param {HTMLElement} box with the lines that the server has put there
 * @returns {{ add(lines: NewLines): void }}
 */
export function openLog(box) {
  const sheet = /** @type {HTMLElement} */ (box.querySelector('.sheet'));
  const { build, step } = box.dataset;
  let total = Number(box.dataset.total);
  /** Lines of the log before those of the box, by their part. @type {Map<number, HTMLElement>} */
  const parts = new Map();
  /** @type {Set<number>} */
  const fetching = new Set();
  const row = sheet.firstElementChild?.getBoundingClientRect().height || 20;
  const shown = document.getElementById('shown');

  /** @param {number} at */
  const partAt = at => {
    let part = parts.get(at);
    if (!part) {
      part = document.createElement('div');
      part.className = 'part';
      part.style.top = `${at * size * row}px`;
      parts.set(at, part);
      sheet.append(part);
    }
    return part;
  };

  /** Number of lines that a part has when it is complete. @param {number} at */
  const wholeOf = at => Math.min(size, total - at * size);

  /**
   * Puts lines where they belong, unless lines before them are missing there.
   * @param {number} from
   * @param {readonly Element[]} lines
   */
  const put = (from, lines) => {
    for (const [index, line] of lines.entries()) {
      const at = Math.floor((from + index) / size);
      const part = partAt(at);
      if (part.childElementCount === from + index - at * size) part.append(line);
    }
    for (const [at, part] of parts) {
      if (part.childElementCount > 0) continue;
      part.remove();
      parts.delete(at);
    }
  };

  const mark = () => {
    for (const line of sheet.querySelectorAll('.marked')) line.classList.remove('marked');
    const line = /^#L\d+$/.test(location.hash) && sheet.querySelector(location.hash);
    if (line) line.classList.add('marked');
  };

  /** @param {number} at */
  const fetchPart = async at => {
    if (fetching.has(at)) return;
    fetching.add(at);
    const before = parts.get(at)?.childElementCount ?? 0;
    let isStale = false;
    try {
      const from = at * size;
      const filter = step === undefined ? '' : `&step=${step}`;
      const response = await fetch(
        `/view/builds/${build}/lines?from=${from}&to=${from + size}${filter}`,
      );
      if (!response.ok) return;
      const lines = linesIn(await response.text());
      partAt(at).replaceChildren(...lines);
      mark();
      isStale = lines.length < wholeOf(at) && lines.length > before;
    } finally {
      fetching.delete(at);
    }
    // Lines were added in the meantime.
    if (isStale) show();
  };

  const first = () => Math.floor(box.scrollTop / row);
  const last = () => Math.min(total, Math.ceil((box.scrollTop + box.clientHeight) / row)) - 1;

  const show = () => {
    if (total === 0) return;
    const [from, to] = [Math.floor(first() / size), Math.floor(Math.max(last(), 0) / size)];
    for (let at = from; at <= to; at += 1) {
      if ((parts.get(at)?.childElementCount ?? 0) < wholeOf(at)) void fetchPart(at);
    }
    for (const [at, part] of parts) {
      if (at >= from - kept && at <= to + kept) continue;
      part.remove();
      parts.delete(at);
    }
    if (shown) {
      const count = new Intl.NumberFormat('en-US').format;
      shown.textContent = `Lines ${count(first() + 1)} to ${count(last() + 1)} of ${count(total)}`;
    }
  };

  const setHeight = () => {
    sheet.style.height = `${Math.min(total, mostLines) * row}px`;
  };

  const jump = () => {
    const [, line] = /^#L(\d+)$/.exec(location.hash) ?? [];
    if (line === undefined || step !== undefined) return;
    box.scrollTop = Math.max(0, (Number(line) - 1) * row - box.clientHeight / 3);
    show();
    mark();
    box.scrollIntoView({ block: 'nearest' });
  };

  const lines = [...sheet.children];
  box.classList.add('scrolls');
  setHeight();
  put(Number(box.dataset.from), lines);
  for (const line of lines) if (!line.isConnected || line.parentElement === sheet) line.remove();
  for (const link of document.querySelectorAll('.pages a')) link.remove();
  box.scrollTop = step === undefined ? box.scrollHeight : 0;
  let isDue = false;
  box.addEventListener(
    'scroll',
    () => {
      if (isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        show();
      });
    },
    { passive: true },
  );
  box.addEventListener('click', event => {
    const link = event.target instanceof Element && event.target.closest('.line > a');
    if (!link || step !== undefined) return;
    event.preventDefault();
    history.replaceState(null, '', /** @type {HTMLAnchorElement} */ (link).href);
    mark();
  });
  addEventListener('hashchange', jump);
  show();
  jump();

  return {
    add(added) {
      const all = linesIn(added.html);
      const own = step === undefined ? all : all.filter(line => isOf(line, step));
      const next = step === undefined ? added.total : (added.counts[step] ?? total);
      if (next === total) return;
      const isAtEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - row;
      const from = step === undefined ? added.from : next - own.length;
      if (next < total) {
        // The build has begun again, and so has the step.
        for (const part of parts.values()) part.remove();
        parts.clear();
      }
      const known = Math.max(Math.min(total, next) - from, 0);
      total = next;
      setHeight();
      put(from + known, own.slice(known));
      if (isAtEnd) box.scrollTop = box.scrollHeight;
      show();
    },
  };
}

/**
 * @param {Element} line
 * @param {string} step
 */
export function isOf(line, step) {
  return line instanceof HTMLElement && line.dataset.step === step;
}

/** @param {string} html */
export function linesIn(html) {
  const template = document.createElement('template');
  template.innerHTML = html;
  return [...template.content.children];
}
