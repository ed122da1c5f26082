import type {
  DocumentedSolution,
  PlatformSolution,
} from '../../../conda/bills/documented-solution.ts';
import type { ChannelAccess } from '../../../conda/channels/channel-access.ts';
import {
  environmentPrefix,
  type LayeredPackage,
  type PackageLayers,
} from '../../../conda/layers/package-layers.ts';
import type { ImageChange, InjectedLayer } from '../../../images/augment/image-change.ts';
import { environmentIn } from '../../../images/augment/image-config.ts';
import type { Documents } from '../../../images/documents.ts';
import type { Document } from '../../../oci/document.ts';
import { parseManifest } from '../../../oci/manifest.ts';
import { formatPlatform } from '../../../oci/platform.ts';
import type { Access } from '../../../upstream/access.ts';
import type { RunStep } from '../../logs/run-step.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';
import { BuilderRequired, type SolvedPlatform } from './builder-required.ts';
import { type FindSolution, type NativeOrigin, specsOf } from './find-solution.ts';
import { partLine, progressLines } from './progress-lines.ts';

/** An image of Conda packages: a base image, and the change that adds the packages. */
export interface CondaImage {
  readonly source: Access;
  /** A manifest or index of the base image. */
  readonly base: Document;
  readonly change: ImageChange;
  readonly solution: Omit<DocumentedSolution, 'image'>;
}

/**
 * Finds the packages of a build and makes their layers, without a builder. Throws a `Fault`, and {@link BuilderRequired}
 * for packages that only a builder can install.
 */
export type MakeCondaImage = (
  run: Pick<BuildRun, 'signal' | 'onSolved'> & { readonly step: RunStep },
  rights: BuildRights,
  recipe: NativeOrigin,
) => Promise<CondaImage>;

export interface MakeCondaImageDeps {
  readonly findSolution: FindSolution;
  readonly layers: PackageLayers;
  readonly documents: Documents;
  readonly channels: Pick<ChannelAccess, 'channelsOf'>;
}

export function createMakeCondaImage(deps: MakeCondaImageDeps): MakeCondaImage {
  const { findSolution, layers: packageLayers, documents } = deps;
  return async ({ step, signal, onSolved }, rights, recipe) => {
    const { native } = recipe;
    const { source, base, platforms } = await step('Solve the packages', ({ write, progress }) =>
      findSolution(recipe, rights, {
        ...{ log: write, signal },
        report: now => progress(partLine({ kind: 'repodata', ...now })),
      }),
    );
    onSolved?.();
    const requested = specsOf(native);
    const made: Made[] = [];
    for (const { platform, subdir, packages, isReplaced } of platforms) {
      const { architecture } = platform;
      const name = `Fetch ${packages.length} packages and make their layers`;
      const title = platforms.length > 1 ? `${name} (${formatPlatform(platform)})` : name;
      const environment = await step(title, ({ write, progress }) =>
        packageLayers.make(
          { packages, isReplaced },
          { signal, log: write, report: now => progressLines(now).forEach(progress) },
        ),
      );
      requireNoScripts(environment.packages, platforms);
      const layers = environment.layers.map(layer => ({ ...layer, architecture }));
      made.push({ ...environment, subdir, layers });
    }
    const bases = native.channels.flatMap(deps.channels.channelsOf);
    const packageVariables = Object.assign({}, ...made.map(one => one.variables));
    const variables = [
      ...Object.entries(packageVariables).map(([name, value]) => `${name}=${value}`),
      ...(native.wanted.form === 'environment' ? native.wanted.variables : []),
    ];
    const path = lastPath(variables) ?? (await pathIn(documents, source, base.images));
    return {
      source,
      base: base.root,
      change: {
        layers: made.flatMap(({ layers }) => layers),
        env: [
          ...variables,
          `CONDA_PREFIX=${environmentPrefix}`,
          `PATH=${environmentPrefix}/bin:${path}`,
        ],
      },
      solution: {
        platforms: made.map(({ subdir, packages }) => ({ subdir, packages })),
        channels: [...new Set(bases.map(({ url }) => url))],
        requested,
      },
    };
  };
}

interface Made extends PlatformSolution {
  readonly layers: readonly InjectedLayer[];
  readonly variables: Readonly<Record<string, string>>;
}

function requireNoScripts(
  packages: readonly LayeredPackage[],
  solution: readonly SolvedPlatform[],
): void {
  const names = packages
    .filter(({ linkScripts }) => linkScripts.length > 0)
    .map(one => one.package.name);
  if (names.length === 0) return;
  throw new BuilderRequired(
    names.map(name => `the link script of ${name}`),
    solution,
  );
}

/** Returns the last PATH of variables, as an image has it. */
function lastPath(variables: readonly string[]): string | undefined {
  const start = 'PATH=';
  return variables.findLast(variable => variable.startsWith(start))?.slice(start.length);
}

// What container programs use for an image without a PATH.
const usualPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Returns the PATH of the base image: that of its first platform, since one change applies to all of them. */
async function pathIn(
  documents: Documents,
  access: Access,
  [first]: readonly Document[],
): Promise<string> {
  const manifest = first && parseManifest(first);
  if (manifest?.kind !== 'manifest') return usualPath;
  const config = await documents.config(access, manifest.config);
  return environmentIn(config.bytes).get('PATH') ?? usualPath;
}
