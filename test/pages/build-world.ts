/** What tests of builds in a browser share: a server whose builds a real BuildKit makes, a registry and a browser. */
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import type { CondaPackage } from '../world/conda-package.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import {
  type ContainerResponse,
  type Sluice,
  type SluiceOptions,
  startSluice,
} from '../world/sluice.ts';
import { startBrowser, type TestBrowser } from './browser-world.ts';

export interface BuildWorldOptions {
  /** Starts the server, where the test needs another way. */
  readonly start?: (options: SluiceOptions) => Promise<Sluice>;
  /** Directory of the server's data. */
  readonly data?: string;
  /** The packages by channel; the server knows these channels, and the registry has `debian:1` as a base image. */
  readonly packages?: Readonly<Record<string, readonly CondaPackage[]>>;
  /** Sections of the configuration file, beside those that connect the server to this world. */
  readonly config?: {
    readonly builds?: object;
    readonly limits?: object;
    readonly accounts?: object;
  };
}

export interface BuildWorld extends AsyncDisposable {
  readonly registry: Registry;
  readonly sluice: Sluice;
  readonly browser: TestBrowser;
  /** The channels of the packages; undefined without packages. */
  readonly channels: CondaChannels | undefined;
  /** The reference of a small image in the registry. */
  readonly base: string;
  /** Requests a container for a Dockerfile. */
  request(dockerfile: string): Promise<ContainerResponse>;
  /** Requests a container for a Dockerfile. Returns the id of its build. */
  build(dockerfile: string): Promise<string>;
  /** Waits until a build has ended. Returns its log. */
  finished(id: string): Promise<string>;
  stop(): Promise<void>;
}

export async function startBuildWorld({
  start = startSluice,
  data,
  packages,
  config = {},
}: BuildWorldOptions = {}): Promise<BuildWorld> {
  await using started = new AsyncDisposableStack();
  const [browser, registry, buildkitd] = await Promise.all([
    startBrowser().then(it => started.use(it)),
    startRegistry().then(it => started.use(it)),
    startBuildkitd().then(it => started.use(it)),
  ]);
  const base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  let channels: CondaChannels | undefined;
  if (packages !== undefined) {
    await pushDebianImage(registry, 'debian');
    channels = started.use(await startCondaChannels(packages));
  }
  const sluice = started.use(
    await start({
      ...(data === undefined ? {} : { data }),
      config: {
        ...(channels && { channels: channels.settings }),
        ...config,
        buildkit: [buildkitd.address],
        builds: { syntax: 'builder', ...config.builds },
        limits: { builds: { anonymous: 'off' }, ...config.limits },
        registries: { [registry.host]: { plainHttp: true } },
      },
    }),
  );
  const request = (dockerfile: string) =>
    sluice.request({ containerFile: Buffer.from(dockerfile).toString('base64') });
  const all = started.move();
  const stop = () => all.disposeAsync();
  return {
    registry,
    sluice,
    browser,
    channels,
    base,
    request,
    build: async dockerfile => (await request(dockerfile)).buildId ?? '',
    finished: async id => (await sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
