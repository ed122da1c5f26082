import { type Html, html } from '../frame/html.ts';
import { shownText } from '../frame/shown-text.ts';
import type { ConfigGroup, ConfigRow } from './config-difference.ts';

const kinds = {
  added: { mark: '+', about: 'added' },
  removed: { mark: '−', about: 'removed' },
  changed: { mark: '±', about: 'changed' },
} as const;

// A page shows so many rows of a group.
const mostRows = 200;

/** Returns the configuration before and after the changes: the changed rows first, the rest on request. */
export function configTable(groups: readonly ConfigGroup[]): Html {
  if (groups.length === 0) return html`<p class="minor">The image has no configuration.</p>`;
  return html`${groups.map(({ title, rows }) => {
    const shown = rows.slice(0, mostRows);
    const changed = shown.filter(isChanged);
    const same = shown.filter(row => !isChanged(row));
    return html`<h3>${title}</h3>
${changed.length > 0 && table(`${title}, changed`, changed, true)}
${same.length > 0 && (changed.length === 0 && same.length <= 8 ? table(title, same, false) : html`<details><summary>${same.length} unchanged</summary>${table(title, same, false)}</details>`)}
${rows.length > mostRows && html`<p class="minor">${rows.length - mostRows} more are not shown.</p>`}`;
  })}`;
}

function isChanged({ before, after }: ConfigRow): boolean {
  return before !== after;
}

function table(title: string, rows: readonly ConfigRow[], isDifference: boolean): Html {
  const heads = isDifference ? ['Before', 'After'] : ['Value'];
  return html`<div class="wide" tabindex="0" role="region" aria-label="${title}"><table class="difference">
<thead><tr><th scope="col">Name</th>${heads.map(head => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>${rows.map(row => (isDifference ? changedRow(row) : sameRow(row)))}</tbody></table></div>`;
}

function changedRow({ name, before, after }: ConfigRow): Html {
  const kind = before === undefined ? 'added' : after === undefined ? 'removed' : 'changed';
  const { mark, about } = kinds[kind];
  return html`<tr class="${kind}"><th scope="row"><span class="mark" aria-hidden="true">${mark}</span> ${shownText(name, 120)} <span class="minor">${about}</span></th><td>${value(before, 'old')}</td><td>${value(after, 'new')}</td></tr>`;
}

function sameRow({ name, after }: ConfigRow): Html {
  return html`<tr><th scope="row">${shownText(name, 120)}</th><td>${value(after, 'same')}</td></tr>`;
}

function value(text: string | undefined, kind: 'old' | 'new' | 'same'): Html {
  if (text === undefined) return html`<span class="minor">none</span>`;
  const code = html`<code>${shownText(text, 1000)}</code>`;
  if (kind === 'old') return html`<del>${code}</del>`;
  return kind === 'new' ? html`<ins>${code}</ins>` : code;
}
