/** Lists with an address for each page, order and search, so that they work without JavaScript. */
import { z } from 'zod';
import { countText, type Html, html } from './html.ts';

/** Returns a schema for a field of a form. An empty field counts as absent. */
export function orAbsent<T extends z.ZodType>(schema: T) {
  return z.preprocess(value => (value === '' ? undefined : value), schema.optional());
}

/** Returns links to the pages before and after a page of a list; false for a list of one page. */
export function pagingLinks(
  { page, pages }: { readonly page: number; readonly pages: number },
  addressOf: (page: number) => string,
): Html | false {
  if (pages < 2) return false;
  const link = (to: number, text: string) => html`<a href="${addressOf(to)}">${text}</a>`;
  return html`<nav class="paging" aria-label="Pages of the list">${page > 1 && link(page - 1, 'Previous page')}<span class="minor">Page ${countText(page)} of ${countText(pages)}</span>${page < pages && link(page + 1, 'Next page')}</nav>`;
}

interface SortHead {
  readonly text: string;
  /** Address of the list in this order. */
  readonly address: string;
  readonly isSorted: boolean;
  readonly order: 'ascending' | 'descending';
  readonly isNumber?: boolean;
}

/** Returns the head of a column by which a list can be sorted. */
export function sortHead({ text, address, isSorted, order, isNumber }: SortHead): Html {
  const mark = order === 'ascending' ? '▲' : '▼';
  return html`<th scope="col"${isNumber && html` class="number"`}${isSorted && html` aria-sort="${order}"`}><a href="${address}">${text}${isSorted && html` <span aria-hidden="true">${mark}</span>`}</a></th>`;
}
