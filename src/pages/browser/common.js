/** What every page does: times in the reader's own zone, and buttons that copy. */

for (const time of document.querySelectorAll('time[datetime]')) {
  const at = new Date(/** @type {HTMLTimeElement} */ (time).dateTime);
  time.setAttribute('title', at.toISOString());
  time.textContent = at.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
}

for (const place of document.querySelectorAll('.copy')) {
  const text = place.querySelector('pre');
  if (!text) continue;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text.textContent ?? '');
      button.textContent = 'Copied';
    } catch {
      // A page without TLS may not use the clipboard: select the text instead.
      getSelection()?.selectAllChildren(text);
      button.textContent = 'Press Ctrl+C';
    }
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2000);
  });
  place.append(button);
}
