import type { DiskContent, DiskUse } from '../../foundation/telemetry/index.ts';
import { type DiskState, diskState } from '../../storage/directory/index.ts';
import { byteText, durationText, type Html, html, timeElement } from '../frame/html.ts';
import type { UsagePageDeps } from './usage-data.ts';
import type { Cell, UsageTab } from './usage-tab.ts';

/** What takes space on the disk, and the limits for it. */
export const diskTab: UsageTab<UsagePageDeps> = {
  path: '/view/usage/disk',
  title: 'Disk',
  hasDays: false,
  tables: ['disk', 'disk-limits'],
  async read(_, deps) {
    const { operation, diskUse } = deps;
    const use = diskUse();
    const disk = await diskState(operation.directory, operation.minFreeBytes);
    return {
      now: nowPart(disk),
      sections: [
        {
          title: 'Content of the disk',
          intro: use && measuredPart(use),
          table: {
            name: 'disk',
            title: 'Content of the disk',
            columns: [
              { name: 'Content', kind: 'text' },
              { name: 'Files', kind: 'count' },
              { name: 'Size', kind: 'bytes' },
              { name: 'Share', kind: 'bar' },
            ],
            rows: use ? contentRows(use) : [],
          },
          empty: 'The server is still measuring the disk. Reload the page in a moment.',
        },
        {
          title: 'Limits in force',
          table: {
            name: 'disk-limits',
            title: 'Limits of the disk',
            columns: [
              { name: 'What', kind: 'text' },
              { name: 'Setting', kind: 'text' },
              { name: 'Used', kind: 'bytes' },
              { name: 'Limit', kind: 'bytes' },
              { name: 'Share', kind: 'bar' },
            ],
            rows: await diskLimits(deps),
          },
        },
      ],
    };
  },
};

function nowPart({ freeBytes, diskBytes, reserveBytes, isLow }: DiskState): Html {
  return html`<p><strong>${byteText(freeBytes)}</strong> of ${byteText(diskBytes)} are free.${isLow && html` <span class="badge bad">Low</span>`} Writes stop below ${byteText(reserveBytes)}: <code>disk.minFreeBytes</code>, but at most 5 % of the disk.</p>`;
}

function measuredPart({ at, tookMs, figures }: DiskUse): Html {
  const isWhole = figures.every(figure => figure.isWhole);
  return html`<p class="minor">Measured in the background, ${timeElement(at)}; it took ${durationText(tookMs)}. Content that several things refer to counts once, for the first of them in this list. Unreferenced content is removed when nothing has used it for <code>sweep.grace</code>.${!isWhole && ' Some folders have more files than were counted.'}</p>`;
}

function contentRows({ figures, diskBytes, freeBytes }: DiskUse): Cell[][] {
  const own = figures.reduce((sum, { bytes }) => sum + bytes, 0);
  const others = Math.max(0, diskBytes - freeBytes - own);
  const share = (bytes: number) => (diskBytes === 0 ? 0 : bytes / diskBytes);
  return [
    ...figures.map(({ content, files, bytes, isWhole }): Cell[] => [
      `${content.charAt(0).toUpperCase()}${content.slice(1)}${isWhole ? '' : ' (at least)'}`,
      ...[files, bytes, share(bytes)],
    ]),
    ['Other files, and the reserve of the file system', undefined, others, share(others)],
    ['Free', undefined, freeBytes, share(freeBytes)],
  ];
}

/** Returns the limits in force, with what is used of them where that is one number. */
async function diskLimits({
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
