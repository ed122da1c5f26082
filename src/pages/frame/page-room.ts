import { type Html, html } from './html.ts';
import { shownText } from './shown-text.ts';

/** The bytes that the lists of a page may still take: a foreign image can have any number of texts of any length. */
export interface PageRoom {
  /** Renders entries in their order as long as there is room. Returns them and the number of those left out. */
  list<T>(
    entries: readonly T[],
    render: (entry: T) => Html,
  ): { readonly shown: readonly Html[]; readonly left: number };
}

const mostEntries = 500;
const shortText = 240;
const longestText = 4000;

/** Creates the room of one page. The frame of a page and its headings take some kilobytes more. */
export function pageRoom(bytes = 80_000): PageRoom {
  let free = bytes;
  return {
    list(entries, render) {
      const shown: Html[] = [];
      for (const entry of entries.slice(0, mostEntries)) {
        const made = render(entry);
        free -= Buffer.byteLength(made.toString());
        if (free < 0) break;
        shown.push(made);
      }
      return { shown, left: entries.length - shown.length };
    },
  };
}

/** Returns a text from outside: a long one as its beginning, below which the rest unfolds. */
export function foldedText(text: string): Html {
  if (text.length <= shortText) return html`<code>${shownText(text)}</code>`;
  return html`<details class="fold"><summary><code>${shownText(text.slice(0, shortText))}</code></summary><code>${shownText(text.slice(shortText), longestText)}</code></details>`;
}
