import type { DiskContent } from '../../../foundation/telemetry/disk-figures.ts';
import type { Cell } from '../tables/figure-table.ts';
import type { UsagePageDeps } from '../usage-data.ts';

/** Returns the limits in force, with what is used of them where that is one number. */
export async function diskLimits({
  operation: { limits },
  figures,
  diskUse,
}: UsagePageDeps): Promise<Cell[][]> {
  const { cachedBlobs, hosted, anonymousUse } = figures;
  const measured = (content: DiskContent) =>
    diskUse()?.figures.find(figure => figure.content === content)?.bytes;
  const cached = await cachedBlobs.total();
  const inRepositories = await hosted.totalBytes();
  const { bytes: anonymous } = await anonymousUse.of(undefined);
  const rows: ReadonlyArray<
    readonly [what: string, setting: string, used: number | undefined, limit: number | undefined]
  > = [
    ['Cache of registries', 'cacheBytes', cached, limits.cacheBytes],
    ['All hosted repositories', 'hosted.maxTotalBytes', inRepositories, limits.hostedBytes],
    ['One hosted repository', 'hosted.maxRepositoryBytes', undefined, limits.repositoryBytes],
    ['One pushed blob', 'hosted.maxBlobBytes', undefined, limits.blobBytes],
    ['Build contexts of one user', 'hosted.maxContextBytes', undefined, limits.contextBytes],
    [
      'Content of callers without a login',
      ...(['anonymous.maxBytes', anonymous, limits.anonymousBytes] as const),
    ],
    [
      'Builds of callers without a login, in one repository',
      ...(['anonymous.maxBuildBytes', undefined, limits.anonymousBuildBytes] as const),
    ],
    [
      'Repository data of Conda',
      ...(['conda.repodata.maxBytes', measured('repository data of Conda')] as const),
      limits.repodataBytes,
    ],
    ['Disk of the builder', 'builds.builderDisk', measured('builder'), limits.builderBytes],
  ];
  return rows.map(([what, setting, used, limit]) => [
    ...[what, setting, used, limit ?? 'No limit'],
    used === undefined || limit === undefined || limit === 0 ? undefined : used / limit,
  ]);
}
