/** What every page does: times in the reader's own zone, buttons that copy, and a line where a table has more columns. */

// Other browsers find out without a script, see the styles of wide tables.
const needsWatch = !CSS.supports('animation-timeline: scroll()');
const watch = new ResizeObserver(entries => {
  for (const { target } of entries) {
    const place = target.closest('.wide');
    place?.classList.toggle('more', place.scrollWidth > place.clientWidth);
  }
});

/**
 * Does that for a part of the page that was replaced.
 * @param {ParentNode} part
 */
export function improve(part) {
  for (const time of part.querySelectorAll('time[datetime]')) showTime(time);
  for (const place of part.querySelectorAll('.copy')) addButton(place);
  if (needsWatch)
    for (const place of part.querySelectorAll('.wide, .wide > *')) watch.observe(place);
}

/** @param {Element} time */
function showTime(time) {
  const { dateTime } = /** @type {HTMLTimeElement} */ (time);
  const at = new Date(dateTime);
  if (/^\d{4}-\d\d-\d\d$/.test(dateTime)) {
    // A day of UTC is the same one everywhere.
    time.textContent = at.toLocaleDateString([], { dateStyle: 'medium', timeZone: 'UTC' });
    return;
  }
  time.setAttribute('title', at.toISOString());
  time.textContent = at.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
}

/** @param {Element} place */
function addButton(place) {
  const text = place.querySelector('pre');
  if (!text) return;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet';
  const what = place.getAttribute('data-what');
  const invite = () => {
    button.textContent = 'Copy';
    if (what) button.ariaLabel = `Copy ${what}`;
  };
  /** @param {string} result */
  const report = result => {
    button.textContent = result;
    button.ariaLabel = null;
    setTimeout(invite, 2000);
  };
  invite();
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text.textContent ?? '');
      report('Copied');
    } catch {
      // A page without TLS may not use the clipboard: select the text instead.
      getSelection()?.selectAllChildren(text);
      report('Press Ctrl+C');
    }
  });
  place.append(button);
}

improve(document);
