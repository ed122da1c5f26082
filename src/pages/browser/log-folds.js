/** The log of a build by its steps: the lines of a step are fetched when it is unfolded. */
import { isOf, linesIn } from './log-lines.js';

const most = 300;

/**
 * @param {HTMLElement} box with the steps that the server has put there
 * @returns {{ add(lines: import('./log-lines.js').NewLines): void, update(): void }}
 */
export function openFolds(box) {
  const { build } = box.dataset;
  /** Whether the lines of a step are there. @type {Map<string, 'filling' | 'stale' | 'filled'>} */
  const filled = new Map();
  /** Number of lines by step; a step may have lines before it is in the table. @type {Map<string, number>} */
  const totals = new Map();
  /** Steps that were unfolded by this script. @type {Set<string>} */
  const followed = new Set();

  /** @param {HTMLElement} fold */
  const sheetOf = fold => /** @type {HTMLElement} */ (fold.querySelector('.sheet'));

  /** @param {HTMLDetailsElement} fold */
  const fill = async fold => {
    const { step = '' } = fold.dataset;
    if (!fold.open || filled.has(step)) return;
    filled.set(step, 'filling');
    const from = Math.max(0, (totals.get(step) ?? 0) - most);
    const response = await fetch(
      `/view/builds/${build}/lines?step=${step}&from=${from}&to=${from + most}`,
    );
    const isStale = filled.get(step) === 'stale';
    filled.delete(step);
    if (!response.ok) return;
    sheetOf(fold).replaceChildren(...linesIn(await response.text()));
    // Lines were added in the meantime.
    if (isStale) return fill(fold);
    filled.set(step, 'filled');
    const link = fold.querySelector('p a');
    if (from === 0) link?.remove();
    else if (link) {
      link.setAttribute('href', `/view/builds/${build}?step=${step}#log`);
      link.textContent = 'All lines of this step';
    }
  };

  /** @param {HTMLDetailsElement} fold */
  const begin = fold => {
    fold.addEventListener('toggle', () => void fill(fold));
    fold.querySelector('summary')?.addEventListener('click', () => {
      followed.delete(fold.dataset.step ?? '');
    });
    if (sheetOf(fold).childElementCount > 0) filled.set(fold.dataset.step ?? '', 'filled');
    else void fill(fold);
  };

  /** @param {string} step */
  const foldOf = step =>
    /** @type {HTMLDetailsElement | null} */ (box.querySelector(`details[data-step="${step}"]`));

  /** @param {string} step */
  const create = step => {
    const template = /** @type {HTMLTemplateElement} */ (document.getElementById('fold'));
    const part = /** @type {DocumentFragment} */ (template.content.cloneNode(true));
    const fold = /** @type {HTMLDetailsElement} */ (part.querySelector('details'));
    fold.id = `step-${step}`;
    fold.dataset.step = step;
    const number = fold.querySelector('.number');
    if (number) number.textContent = `#${step}`;
    fold.querySelector('.log')?.setAttribute('aria-label', `Lines of step ${step}`);
    fold.querySelector('p')?.replaceChildren();
    box.append(fold);
    begin(fold);
    return fold;
  };

  /** Shows the steps of the table as they are now: there each has the same name, state and duration. */
  const update = () => {
    for (const row of document.querySelectorAll('#course .steps tr[data-step]')) {
      const { step = '' } = /** @type {HTMLElement} */ (row).dataset;
      const known = foldOf(step);
      const fold = known ?? create(step);
      const [name, took] = [fold.querySelector('.name'), fold.querySelector('.took')];
      const [, ...words] = (row.querySelector('.name')?.textContent ?? '').split(' ');
      if (name) name.textContent = words.join(' ');
      if (took) took.textContent = row.lastElementChild?.textContent ?? '';
      const badge = row.querySelector('.badge');
      if (badge) fold.querySelector('.badge')?.replaceWith(badge.cloneNode(true));
      const isRunning = row.classList.contains('running');
      if (isRunning && !known) {
        followed.add(step);
        fold.open = true;
      } else if (row.classList.contains('done') && followed.delete(step)) fold.open = false;
    }
  };

  for (const fold of box.querySelectorAll('details')) {
    totals.set(fold.dataset.step ?? '', Number(fold.dataset.total));
    if (fold.open && box.dataset.live !== undefined) followed.add(fold.dataset.step ?? '');
    begin(fold);
  }

  return {
    update,
    add({ html, counts }) {
      const lines = linesIn(html);
      for (const [step, total] of Object.entries(counts)) {
        const known = totals.get(step) ?? 0;
        totals.set(step, total);
        const fold = foldOf(step);
        if (!fold || total === known || !filled.has(step)) continue;
        if (filled.get(step) !== 'filled') {
          filled.set(step, 'stale');
          continue;
        }
        const place = /** @type {HTMLElement} */ (fold.querySelector('.log'));
        const sheet = sheetOf(fold);
        const own = lines.filter(line => isOf(line, step));
        if (own.length < total - known) {
          // Some were not sent, because they were many or nobody looked at the page.
          filled.delete(step);
          void fill(fold);
          continue;
        }
        const isAtEnd = isEnd(place);
        // The build has begun again, and so has the step.
        if (total < known) sheet.replaceChildren();
        sheet.append(...own.slice(-Math.max(total - (total < known ? 0 : known), 0)));
        while (sheet.childElementCount > most) sheet.firstElementChild?.remove();
        if (isAtEnd) place.scrollTop = place.scrollHeight;
      }
    },
  };
}

/** @param {HTMLElement} box */
function isEnd(box) {
  return box.scrollTop + box.clientHeight >= box.scrollHeight - 20;
}
