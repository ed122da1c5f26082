import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Apptainer, openApptainer } from '../world/apptainer.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

/** A server that makes Singularity images, two registries for them, and a real Apptainer. */
export interface SifWorld extends AsyncDisposable {
  readonly open: Registry;
  /** Requires a login, which the server has. */
  readonly closed: Registry;
  /** In the open registry, by their names in the corpus. */
  readonly images: Map<string, Pushed>;
  readonly apptainer: Apptainer;
  readonly sluice: Sluice;
}

/** @param corpus names of the images that the open registry gets */
export async function startSifWorld(corpus: readonly string[]): Promise<SifWorld> {
  await using started = new AsyncDisposableStack();
  const open = started.use(await startRegistry());
  const closed = started.use(await startRegistry({ auth: 'basic' }));
  const images = await pushCorpus(open, corpus);
  const buildkitd = started.use(await startBuildkitd());
  const apptainer = await openApptainer();
  started.defer(() => apptainer.remove());
  const sluice = started.use(
    await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        hosted: { anonymous: ['public/*'] },
        limits: { builds: { anonymous: 'off' } },
        registries: {
          [open.host]: { plainHttp: true },
          [closed.host]: {
            ...{ plainHttp: true, anonymous: true, username: 'tester', password: 'sesame' },
          },
        },
      },
    }),
  );
  const all = started.move();
  return {
    open,
    closed,
    images,
    apptainer,
    sluice,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
