import { useCommands } from '../ask/use-commands.ts';
import { type Html, html } from '../frame/html.ts';
import type { ContainerData } from './container-data.ts';

/** Returns the name of a container, and what to write for each client. */
export function usePart({ used }: ContainerData): Html {
  return html`<h2>Its name</h2>
<div class="copy" data-what="the name"><pre class="name">${used.name}</pre></div>
<h2>Use it</h2>
<div class="uses">${useCommands(used).map(
    ({ client, text, note }) => html`<section><h3>${client}</h3>
<div class="copy" data-what="the command for ${client}"><pre>${text}</pre></div>
${note !== undefined && html`<p class="hint">${note}</p>`}</section>`,
  )}</div>`;
}
