import { useCommands } from '../ask/use-commands.ts';
import { byteText, countText, durationText, timeElement, withoutHidden } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { BuildView, Failure, ShownImage } from './build-view.ts';
import { stepNames, stepsTable } from './steps-table.ts';

const stateWords: Readonly<Record<BuildView['state'], readonly [string, string]>> = {
  queued: ['waiting', 'wait'],
  running: ['running', 'wait'],
  succeeded: ['succeeded', 'good'],
  failed: ['failed', 'bad'],
};

/** Returns the part of the page that changes while a build runs: the same for everyone who looks. */
export function statePart(view: BuildView, now: number): Html {
  const [word, kind] = stateWords[view.state];
  return html`<p><span class="badge ${kind}" role="status">${word}</span> ${times(view)}</p>
${queuePart(view)}${failurePart(view)}${view.state === 'succeeded' && resultPart(view.image, view.id)}
<h2 id="steps">Steps</h2>
${stepsTable(view, now)}`;
}

function times({ createdAt, startedAt, finishedAt }: BuildView): Html {
  const waited = startedAt === undefined ? undefined : startedAt - createdAt;
  return html`requested ${timeElement(createdAt)}${
    waited !== undefined && waited >= 1000 && html`, waited ${durationText(waited)}`
  }${startedAt !== undefined && finishedAt === undefined && html`, running since ${timeElement(startedAt)}`}${
    finishedAt !== undefined && html`, took ${durationText(finishedAt - (startedAt ?? createdAt))}`
  }`;
}

function queuePart({ queue }: BuildView): Html | undefined {
  if (!queue) return undefined;
  const { waitsFor, before, all } = queue;
  const place =
    before === 0
      ? 'It goes before all other waiting builds.'
      : `${countText(before)} of ${countText(all)} waiting builds go before it. Callers take turns; those with a login go first.`;
  return html`<p class="notice">This build waits for ${waitsFor}. ${all > 1 && place}</p>`;
}

function failurePart({ failure, state }: BuildView): Html | undefined {
  return failure && state === 'failed' ? failureBox(failure) : undefined;
}

/** Returns why a build failed, with the last lines of its failed step. */
export function failureBox({ words, output }: Failure): Html {
  return html`<div class="failure" role="alert"><strong>Why it failed:</strong> ${withoutHidden(words)}${
    output !== '' && html`\n<pre>${withoutHidden(output)}</pre>`
  }</div>`;
}

function resultPart(image: ShownImage, id: string): Html {
  const { name, digest, platforms, format, documents } = image;
  const address = (document: string) => {
    const isBill = document === 'spdx' || document === 'cyclonedx';
    return `/v1alpha1/builds/${id}/${isBill ? 'sbom' : 'lock'}?format=${document}`;
  };
  const links = (names: readonly string[]) =>
    names.map((one, at) => html`${at > 0 && ', '}<a href="${address(one)}">${one}</a>`);
  const locks = documents.filter(one => !one.startsWith('spdx') && one !== 'cyclonedx');
  const bills = documents.filter(one => !locks.includes(one));
  return html`<h2>Result</h2>
<div class="copy"><pre tabindex="0">${name}</pre></div>
<dl class="facts"><dt>Format</dt><dd>${format === 'sif' ? 'Singularity (SIF)' : 'Docker'}</dd>
${digest !== undefined && html`<dt>Digest</dt><dd><code>${digest}</code></dd>`}
${platforms.map(({ platform, layers }) => {
  const bytes = layers.reduce((sum, { size }) => sum + size, 0);
  return html`<dt>${platform}</dt><dd>${byteText(bytes)} in ${layers.length} ${layers.length === 1 ? 'layer' : 'layers'}</dd>`;
})}
${locks.length > 0 && html`<dt>Lock file</dt><dd>${links(locks)}</dd>`}
${bills.length > 0 && html`<dt>Bill of materials</dt><dd>${links(bills)}</dd>`}</dl>
<details><summary>Commands to use it</summary>${useCommands(image).map(
    ({ client, text, note }) =>
      html`<h3>${client}</h3>${note !== undefined && html`<p class="hint">${note}</p>`}<div class="copy"><pre tabindex="0">${text}</pre></div>`,
  )}</details>
${platforms.length > 0 && layersPart(platforms)}`;
}

function layersPart(platforms: ShownImage['platforms']): Html {
  const nameOf = stepNames(
    platforms.flatMap(({ layers }) => layers.map(({ by = '' }) => ({ name: by }))),
  );
  return html`<details><summary>Layers</summary>${platforms.map(
    ({ platform, layers }) => html`<h3>${platform}</h3>
<div class="wide"><table><thead><tr><th scope="col" class="number">Size</th><th scope="col">Made by</th><th scope="col">Digest</th></tr></thead><tbody>${layers.map(
      ({ digest, size, by }) =>
        html`<tr><td class="number">${byteText(size)}</td><td><code>${nameOf(by ?? '')}</code></td><td><code>${digest.slice(0, 19)}</code></td></tr>`,
    )}</tbody></table></div>`,
  )}</details>`;
}
