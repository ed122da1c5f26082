/** A server in which every text from outside is hostile, and the addresses of all of its pages. */
import { pageRoutes } from '../../src/pages/pages.ts';
import { noteLayer } from '../corpus/base.ts';
import { imageOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { startCondaChannels } from '../world/conda-channels.ts';
import { program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

/** Texts that break out of an element, an attribute or a script where they are not escaped. */
export const hostileTexts: readonly string[] = [
  '<script>alert(1)</script>',
  '"><img data-broken-out src=x onerror=alert(1)>',
  "'><i data-broken-out onmouseover=alert(1)>x</i>",
  '</title></textarea></pre></style></script><i data-broken-out></i>',
  '<svg data-broken-out onload=alert(1)>',
  '<base href=//evil.example><meta http-equiv=refresh content="0;url=//evil.example">',
  'javascript:alert(1)',
  '<!--',
  '{{alert(1)}}',
  '\u202egnp.exe \u200f\u0007\u001b]0;title\u0007\u001b[31m',
  '&lt;i data-broken-out&gt;',
];

export const hostileText = hostileTexts.join(' ');

const names =
  'q image by package base env to next from page filter name owner user state status since until tag repository digest path layer platform build token search versions dockerfile channels entrypoint workdir sort order line step day organisation plan against compare at format change find last untagged deleted reference target kind scope part';

/** Returns a query in which every parameter that a page may read is the text. */
export function queryWith(text: string): string {
  return String(
    new URLSearchParams(Object.fromEntries(names.split(' ').map(name => [name, text]))),
  );
}

export interface HostileWorld extends AsyncDisposable {
  readonly sluice: Sluice;
  /** Paths of pages that a browser gets, with things that exist in them. */
  readonly paths: readonly string[];
  /** Paths of everything that pages answer, by its declared path. */
  pathOf(declared: string, text?: string): string;
}

/** @param start starts the server. Default: with a check of its responses. */
export async function startHostileWorld(start = startSluice): Promise<HostileWorld> {
  await using stack = new AsyncDisposableStack();
  const registry = stack.use(await startRegistry());
  const channels = await startCondaChannels({
    'conda-forge': [program('procps-ng', '4.0'), program('tool', '1')],
    bioconda: [],
  });
  stack.use(channels);
  const names = hostileTexts.map(text => ({ name: text.replaceAll('/', '|'), content: text }));
  const layer = await layerOf(names);
  const image = imageOf({
    layers: [layer, await noteLayer('<script>alert(1)</script>')],
    run: {
      Env: hostileTexts.map((text, at) => `E${at}=${text}`),
      Cmd: hostileTexts,
      Labels: Object.fromEntries(hostileTexts.map(text => [text, text])),
      WorkingDir: `/${hostileText}`,
      User: hostileText,
    },
    config: usual => ({
      ...usual,
      author: hostileText,
      history: [
        { created_by: hostileText, comment: hostileText, author: hostileText },
        ...hostileTexts.map(text => ({ created_by: text, empty_layer: true })),
        { created_by: 'x'.repeat(10_000), empty_layer: true },
      ],
    }),
  });
  const pusher = await Pusher.open(registry, 'hostile');
  await pusher.push(image, '1');
  await pusher.close();
  await pushDebianImage(registry, 'debian');
  const sluice = await start({
    config: {
      // Its page is there only with a scanner.
      scans: { adapter: 'http://scanner.invalid' },
      accounts: { admin: 'open sesame' },
      builds: { conda: 'native' },
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
      channels: channels.settings,
    },
  });
  stack.use(sluice);
  const served = await sluice.request({
    containerImage: `${registry.host}/hostile:1`,
    containerConfig: {
      env: hostileTexts.map((text, at) => `F${at}=${text.replaceAll(/\p{Cc}/gu, '')}`),
      entrypoint: [hostileText.replaceAll(/\p{Cc}/gu, '')],
    },
  });
  const comment = hostileText.replaceAll(/\p{Cc}/gu, '');
  const environment = `# ${comment}\ndependencies:\n- tool=1\n`;
  const built = await sluice.request({
    packages: {
      type: 'CONDA',
      environment: Buffer.from(environment).toString('base64'),
      condaOpts: { baseImage: `${registry.host}/debian:1` },
    },
  });
  const { buildId = '' } = built;
  const known: Readonly<Record<string, string>> = {
    token: served.containerToken,
    buildId,
    id: buildId,
    digest: image.root.digest,
    registry: registry.host,
  };
  const pathOf = (declared: string, text?: string) =>
    declared.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      encodeURIComponent(text ?? known[name] ?? hostileText),
    );
  await eventually('the build ends', async () => {
    const response = await sluice.fetch(`/v1alpha1/builds/${buildId}/status`);
    const { status } = (await response.json()) as { status: string };
    return status === 'COMPLETED';
  });
  const open = stack.move();
  return {
    sluice,
    pathOf,
    // Browsers save a CSV file and show nothing of it.
    paths: pageRoutes
      .filter(({ method, path }) => method === 'get' && !/\/assets\/|\.csv$/.test(path))
      .map(({ path }) => pathOf(path))
      .concat(
        `/view/inspect?image=${encodeURIComponent(`${registry.host}/hostile:1`)}`,
        `/view/inspect/layer?image=${encodeURIComponent(`${registry.host}/hostile:1`)}&layer=${layer.content.digest}`,
      ),
    [Symbol.asyncDispose]: () => open.disposeAsync(),
  };
}
