import type { Logger } from '../../foundation/telemetry/index.ts';
import type { HostedManifests } from '../../hosted/index.ts';
import type { Reference } from '../../oci/naming.ts';
import { type BuildStore, eachRow, type HostedStore } from '../../storage/rows/index.ts';

/** Provides a hosted repository for the intermediate images of each build. */
export interface Staging {
  /** The host of these repositories. */
  readonly host: string;
  repositoryOf(buildId: string): Reference;
  /** Removes the images of a build, including those of an earlier attempt. A failure is logged. */
  drop(buildId: string): Promise<void>;
}

/** The intermediate images of all builds. */
export interface StagedImages extends Staging {
  /**
   * Removes the images of builds that have ended: a server that was killed, or that could not reach the database, left
   * them.
   */
  removeStray(signal?: AbortSignal): Promise<void>;
}

export interface StagedImagesDeps {
  /** Host of the hosted registry. */
  readonly ownHost: string;
  readonly hosted: Pick<HostedManifests, 'removeAll'>;
  readonly repositories: HostedStore['repositories'];
  readonly store: Pick<BuildStore, 'find'>;
  readonly log: Logger;
}

const folder = 'builds/staging/';
// Ids of builds. Other repositories in this folder belong to users.
const buildId = /^[0-9a-f]+_\d+$/;

export function createStagedImages(deps: StagedImagesDeps): StagedImages {
  const { ownHost, hosted, repositories, store, log } = deps;
  const nameOf = (id: string) => folder + id;

  /** Yields the names of builds that have a repository. */
  async function* staged(signal?: AbortSignal): AsyncGenerator<string> {
    let last = folder;
    const read = async (limit: number) => {
      const page = await repositories(last, limit);
      last = page.at(-1) ?? last;
      return page;
    };
    for await (const name of eachRow(read, signal)) {
      if (!name.startsWith(folder)) return;
      const id = name.slice(folder.length);
      if (buildId.test(id)) yield id;
    }
  }

  return {
    host: ownHost,
    repositoryOf: id => ({ registry: ownHost, repository: nameOf(id) }),
    drop: id =>
      hosted.removeAll(nameOf(id)).catch(err => {
        log.error({ buildId: id, err }, 'cannot remove the staged image: it is removed later');
      }),
    async removeStray(signal) {
      for await (const id of staged(signal)) {
        const build = await store.find(id);
        if (build?.finishedAt === null) continue;
        await hosted.removeAll(nameOf(id));
      }
    },
  };
}
