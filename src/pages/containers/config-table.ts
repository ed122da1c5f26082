import { type Html, html } from '../frame/html.ts';
import { foldedText, type PageRoom } from '../frame/page-room.ts';
import { shownText } from '../frame/shown-text.ts';
import type { ConfigGroup, ConfigRow } from './config-difference.ts';

const kinds = {
  added: { mark: '+', about: 'added' },
  removed: { mark: '−', about: 'removed' },
  changed: { mark: '±', about: 'changed' },
} as const;

/** Returns the configuration before and after the changes: the changed rows first, the rest on request. */
export function configTable(groups: readonly ConfigGroup[], room: PageRoom): Html {
  if (groups.length === 0) return html`<p class="minor">The image has no configuration.</p>`;
  return html`${groups.map(({ title, rows }) => {
    const changed = room.list(rows.filter(isChanged), changedRow);
    const rest = rows.filter(row => !isChanged(row));
    const same = room.list(rest, sameRow);
    const left = changed.left + same.left;
    const isShort = rows.length === rest.length && rest.length <= 8;
    const table = same.shown.length > 0 && tableOf(title, same.shown, ['Value']);
    return html`<h3>${title}</h3>
${changed.shown.length > 0 && tableOf(`${title}, changed`, changed.shown, ['Before', 'After'])}
${table && (isShort ? table : html`<details><summary>${rest.length} unchanged</summary>${table}</details>`)}
${left > 0 && html`<p class="minor">${left} more are not shown: the page would be too large.</p>`}`;
  })}`;
}

function isChanged({ before, after }: ConfigRow): boolean {
  return before !== after;
}

function tableOf(title: string, rows: readonly Html[], heads: readonly string[]): Html {
  return html`<div class="wide" tabindex="0" role="region" aria-label="${title}"><table class="difference">
<thead><tr><th scope="col">Name</th>${heads.map(head => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>${rows}</tbody></table></div>`;
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
  const code = foldedText(text);
  if (kind === 'old') return html`<del>${code}</del>`;
  return kind === 'new' ? html`<ins>${code}</ins>` : code;
}
