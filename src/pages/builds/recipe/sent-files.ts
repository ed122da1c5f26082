import { listUploadedContext } from '../../../builds/index.ts';
import { type BuildPlan, recipeIn } from '../../../builds/plan/build-plan.ts';
import type { ContextEntry } from '../../../contexts/index.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import { byteText, countText } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import type { Page } from '../../frame/page-layout.ts';
import { shownText } from '../../frame/shown-text.ts';

/** A part of the files of an uploaded build context. */
export interface ContextFiles {
  readonly id: string;
  /** Number of files, directories and links. */
  readonly total: number;
  readonly bytes: number;
  /** Position of the first shown one, counted from 0. */
  readonly from: number;
  readonly entries: readonly ContextEntry[];
}

const filesAtOnce = 200;

/** Returns true for a build whose files can be listed. */
export function hasContextFiles(plan: BuildPlan): boolean {
  return recipeIn(plan)?.isUploaded === true;
}

/** Returns files of a build context by their position; undefined where they are not kept. Throws a `Fault`. */
export async function contextFilesOf(
  id: string,
  plan: BuildPlan,
  from: number,
  content: ContentStore,
): Promise<ContextFiles | undefined> {
  const { context, isUploaded } = recipeIn(plan) ?? {};
  if (context === undefined || !isUploaded) return undefined;
  const all = await listUploadedContext(content, context);
  let bytes = 0;
  for (const { size } of all) {
    bytes += size;
    await pauseTurn();
  }
  const begin = Math.min(from, Math.max(0, all.length - 1));
  return {
    id,
    total: all.length,
    bytes,
    from: begin,
    entries: all.slice(begin, begin + filesAtOnce),
  };
}

/** Returns the page with the files of a build context. */
export function contextFilesPage({ id, total, bytes, from, entries }: ContextFiles): Page {
  const link = (to: number, text: string) =>
    html` <a href="/view/builds/${id}/files?from=${to + 1}">${text}</a>`;
  const until = from + entries.length;
  return {
    title: 'Files of the build context',
    content: html`<h1>Files of the build context</h1>
<p class="minor id"><a href="/view/builds/${id}">Build <code>${id}</code></a></p>
<p class="pages">${total === 0 ? 'It has no files.' : html`${countText(from + 1)} to ${countText(until)} of ${countText(total)}, ${byteText(bytes)} in all`}${
      from > 0 && html`${link(0, 'First')}${link(Math.max(0, from - filesAtOnce), 'Earlier')}`
    }${until < total && link(until, 'Later')}</p>
<div class="wide"><table><thead><tr><th scope="col">Path</th><th scope="col" class="number">Size</th><th scope="col">Mode</th></tr></thead><tbody>${entries.map(row)}</tbody></table></div>`,
  };
}

function row({ path, kind, size, mode, target }: ContextEntry): Html {
  const name = html`<code>${shownText(path)}${kind === 'directory' && '/'}</code>`;
  return html`<tr><th scope="row">${name}${
    target !== undefined &&
    html` ${kind === 'link' ? 'hard link to' : '→'} <code>${shownText(target)}</code>`
  }</th><td class="number">${kind === 'file' && byteText(size)}</td><td><code>${mode.toString(8).padStart(4, '0')}</code></td></tr>`;
}
