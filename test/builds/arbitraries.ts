import fc from 'fast-check';
import type { BuildIdentity } from '../../src/builds/plan/build-key.ts';
import type { CondaSource } from '../../src/builds/recipe/conda/conda-source.ts';
import type { BuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import { sortedOnce } from '../../src/builds/recipe/text/canonical-document.ts';
import type { InjectedLayer } from '../../src/images/augment/image-config.ts';
import type { Digest } from '../../src/oci/digest.ts';

const texts = fc.oneof(
  fc.constantFrom('', 'a', 'b', 'a\nb', '1', 'text a 1\n'),
  fc.string({ unit: 'grapheme', maxLength: 5 }),
);
const lists = fc.array(texts, { maxLength: 3 });
const sets = lists.map(sortedOnce);
const optional = <T>(some: fc.Arbitrary<T>) => fc.option(some, { nil: undefined });

/** A record without the members that are undefined. */
function present<T extends object>(model: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return model.map(
    record =>
      Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as T,
  );
}

const wanted: fc.Arbitrary<CondaSource['wanted']> = fc.oneof(
  present(
    fc.record({
      form: fc.constant('environment' as const),
      name: optional(texts) as fc.Arbitrary<string>,
      packages: sets,
      pip: lists,
      variables: sets,
    }),
  ),
  fc.record({ form: fc.constant('lock' as const), urls: lists, pip: lists }),
  fc.record({
    form: fc.constant('locks' as const),
    platforms: fc.array(fc.record({ subdir: texts, urls: lists, pip: lists })),
  }),
  fc.record({ form: fc.constant('lockUrl' as const), url: texts }),
);

const cranSources: fc.Arbitrary<BuildSource> = fc.record({
  kind: fc.constant('cran' as const),
  wanted: fc.oneof(
    fc.record({ form: fc.constant('packages' as const), packages: sets }),
    fc.record({ form: fc.constant('lock' as const), text: texts }),
  ),
  repositories: lists,
  options: fc.record({ rImage: texts, basePackages: sets, commands: lists }),
});

const sources: fc.Arbitrary<BuildSource> = fc.oneof(
  cranSources,
  present(
    fc.record({
      kind: fc.constant('dockerfile' as const),
      text: texts,
      condaFile: optional(texts),
    }),
  ) as fc.Arbitrary<BuildSource>,
  fc.record({ kind: fc.constant('image' as const), digest: texts }),
  fc.record({
    kind: fc.constant('conda' as const),
    wanted,
    channels: lists,
    options: fc.record({
      mambaImage: texts,
      baseImage: texts,
      basePackages: sets,
      commands: lists,
    }),
  }),
);

const layers = fc.array(
  present(
    fc.record({
      gzipDigest: fc.constantFrom<Digest[]>('sha256:1' as Digest, 'sha256:2' as Digest),
      gzipSize: fc.constant(1),
      tarDigest: fc.constant('sha256:3' as Digest),
      architecture: optional(fc.constantFrom('amd64', 'arm64')),
    }),
  ) as fc.Arbitrary<InjectedLayer>,
  { maxLength: 2 },
);

/** Builds of every kind, from few values, so that two of them are often alike. */
export const identities: fc.Arbitrary<BuildIdentity> = fc.record({
  source: sources,
  platforms: fc.subarray(['linux/amd64', 'linux/arm64']),
  repository: fc.constantFrom('r.example.com/a', 'r.example.com/a/b', 'localhost:5000/a'),
  nameStrategy: optional(fc.constantFrom('none', 'tagPrefix', 'imageSuffix')),
  format: optional(fc.constantFrom('docker', 'sif')),
  contextDigest: optional(fc.constantFrom('sha256:1', 'sha256:2')),
  frozenConfig: optional(
    fc.record({
      entrypoint: optional(lists),
      cmd: optional(lists),
      env: optional(lists),
      workingDir: optional(texts),
      layers: optional(layers),
    }),
  ),
  options: optional(fc.dictionary(fc.constantFrom('a', 'b', 'a b'), texts)),
});
