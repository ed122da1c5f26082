import { type Html, html } from './html.ts';

// Control characters, characters that change the direction of text, and some without width.
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Returns a text from outside with its invisible characters as `\u{202e}`, so that what a reader sees is what is there.
 *
 * @param most characters that are shown
 */
export function visibleText(text: string, most = 400): string {
  const start = text.slice(0, most);
  const cut = start.length < text.length ? '…' : '';
  return (
    start.replace(unseen, one => `\\u{${one.codePointAt(0)?.toString(16)}}`).toWellFormed() + cut
  );
}

/** Returns a text of several lines, each as {@link visibleText}. */
export function visibleLines(text: string, most = 4000): string {
  return text
    .slice(0, most)
    .split('\n')
    .map(line => visibleText(line, most))
    .join('\n');
}

/** Returns a text from outside as an element, isolated from the direction of the text around it. */
export function shownText(text: string, most?: number): Html {
  return html`<bdi>${visibleText(text, most)}</bdi>`;
}
