import type { Builds } from '../../builds/builds.ts';
import { containerStatus } from '../../http/api/container/container-status.ts';
import type { ContainerRequest } from '../../request/container-request.ts';
import type { TokenRegistry } from '../../request/tokens/token-registry.ts';
import { timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import { pageRoute } from '../frame/page-route.ts';
import { useCommands } from './use-commands.ts';

export interface AskedDeps {
  readonly tokens: TokenRegistry;
  readonly builds: Builds;
  readonly logUrlOf: (buildId: string) => string;
  readonly publicUrl: URL;
}

type Status = Awaited<ReturnType<typeof containerStatus>>;

/** The answer to a request that somebody made with the form: its name, and how to use it. */
export const askedRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/asked/{token}',
    access: 'anybody',
    async run({ params }, deps: AskedDeps) {
      const { request, status } = await look(params.token, deps);
      const isBuilding = status.succeeded === undefined;
      return {
        title: 'Your container',
        ...(isBuilding ? { scripts: ['asked'], refreshSeconds: 3 } : {}),
        content: askedContent(request, status, deps.publicUrl),
      };
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/asked/{token}/state',
    access: 'anybody',
    async run({ params }, deps: AskedDeps) {
      const { request, status } = await look(params.token, deps);
      return { piece: stateOf(request, status) };
    },
  }),
];

async function look(token: string, { tokens, builds, logUrlOf }: AskedDeps) {
  const request = await tokens.get(token);
  return { request, status: await containerStatus(builds, logUrlOf, request) };
}

function askedContent(request: ContainerRequest, status: Status, publicUrl: URL): Html {
  const { targetImage, expiresAt, isFrozen = false, token } = request;
  // A kept image may be in another registry.
  const isHere = targetImage.replace(/^oras:\/\//, '').startsWith(`${publicUrl.host}/`);
  const isPlainHttp = isHere && publicUrl.protocol === 'http:';
  return html`<h1>Your container</h1>
<div id="state" aria-live="polite" data-from="/view/asked/${token}/state">${stateOf(request, status)}</div>
<h2>Its name</h2>
<div class="copy"><pre>${targetImage}</pre></div>
<p class="minor">${isFrozen ? html`This name does not expire.` : html`Everybody who has this name can pull it, until ${timeElement(expiresAt)}. For a name that does not expire, ask again with <em>Keep it for good</em>.`}</p>
<h2>Use it</h2>
<div class="uses">${useCommands({ name: targetImage, isPlainHttp }).map(
    ({ client, text, note }) => html`<section><h3>${client}</h3>
<div class="copy"><pre>${text}</pre></div>
${note !== undefined && html`<p class="hint">${note}</p>`}</section>`,
  )}</div>
<p><a href="/view/containers/${token}">What is in it</a> · <a href="/">Ask for another container</a></p>`;
}

function stateOf({ isFrozen }: ContainerRequest, { succeeded, buildId, reason }: Status): Html {
  const build =
    buildId !== undefined && html` <a href="/view/builds/${buildId}">Look at its build</a>`;
  if (succeeded === undefined) {
    const use = isFrozen
      ? 'Its name can be pulled when the build has finished.'
      : 'You can use the name now: a pull waits until the image is ready.';
    return html`<p data-running><span class="badge wait">Being built</span> ${use}${build}</p>`;
  }
  if (succeeded)
    return html`<p><span class="badge good">Ready</span> It can be pulled.${build}</p>`;
  return html`<p><span class="badge bad">Failed</span>${build}</p>
<p class="failure">${reason ?? 'The build failed.'}</p>`;
}
