import { z } from 'zod';
import { channelKey, hasPathToken } from '../../../conda/channels/index.ts';
import { accessFields, packageUrl } from '../package-source.ts';
import { count, duration, size, timer } from '../units.ts';

const baseUrl = packageUrl('a channel');

/** A key is shown in messages, so it holds no secret. */
function hasSecret(text: string): boolean {
  return /^https?:\/\/[^/]*@/.test(text) || hasPathToken(text);
}

const channelName = z
  .string()
  .refine(
    text => !hasSecret(text),
    'expected a base URL without credentials: write them as username and password, or token',
  )
  .refine(
    text => /^[A-Za-z0-9_][A-Za-z0-9_./-]*$/.test(text) || baseUrl.safeParse(text).success,
    'expected the name of a conda channel, or its http(s) base URL',
  );

const channel = z.strictObject({
  url: baseUrl
    .optional()
    .describe(
      'Base URL of the channel; a token may stand anywhere in its path as `/t/<token>/`. Default: the URL that the entry is listed by, or the public channel of that name',
    ),
  ...accessFields(
    'channel',
    baseUrl,
    'Token for this channel, sent as a bearer token, or as `/t/<token>/` in the path if the channel refuses that',
  ),
});

/** Settings of conda channels by their names or base URLs. */
export const channels = z.record(channelName, channel).superRefine((entries, context) => {
  const known = new Map<string, string>();
  for (const [name, { url }] of Object.entries(entries)) {
    const refuse = (message: string) => context.addIssue({ code: 'custom', path: [name], message });
    const key = channelKey(name);
    const other = known.get(key);
    known.set(key, name);
    if (other !== undefined) refuse(`the same channel as '${other}': list one of them`);
    if (key === 'defaults' && url === undefined) {
      refuse(
        "'url' is missing: 'defaults' stands for pkgs/main and pkgs/r. List these, or a 'url'",
      );
    }
  }
});

/** Settings of conda images that are made without a builder. */
export const conda = z.strictObject({
  solve: z
    .strictObject({
      timeout: timer
        .prefault('2m')
        .describe('Timeout for solving one environment, without the wait for other solves'),
      memory: size
        .prefault('512 MiB')
        .describe('Memory of the solver for one environment. A larger environment is refused'),
      maxWaiting: count
        .min(1)
        .default(200)
        .describe(
          'Maximum number of environments that wait to be solved; more are refused (503). Those of callers without a login fill at most half of it',
        ),
    })
    .prefault({}),
  repodata: z
    .strictObject({
      fresh: duration
        .prefault('5m')
        .describe(
          'How long repository data of a channel is used before the channel is asked whether it changed',
        ),
      timeout: timer
        .prefault('10m')
        .describe('Timeout for the download of the repository data of one subdirectory'),
      maxBytes: size
        .prefault('8 GiB')
        .describe('Disk space for repository data. The least recently used data is removed first'),
      maxFileBytes: size
        .prefault('2 GiB')
        .describe('Maximum size of one `repodata.json`, uncompressed'),
    })
    .prefault({}),
  packages: z
    .strictObject({
      maxCount: count
        .min(1)
        .default(1000)
        .describe('Maximum number of packages in one environment'),
      maxArchiveBytes: size
        .prefault('4 GiB')
        .describe('Maximum size of the archive of one package'),
      maxUnpackedBytes: size
        .prefault('16 GiB')
        .describe(
          'Maximum size of one package, unpacked, and of one layer of a base image that is compressed again',
        ),
      maxFiles: count
        .min(1)
        .default(75_000)
        .describe('Maximum number of files, directories and links in one package'),
      threads: count
        .min(1)
        .optional()
        .describe(
          'Threads that install packages. Each needs about 70 MiB of memory while it works. Default: the number of processors, at most 2',
        ),
      fetchTimeout: timer.prefault('15m').describe('Timeout for the download of one package'),
      keep: duration
        .prefault('30d')
        .describe(
          'How long the layer of a package is kept after its last use, for other images that need it',
        ),
    })
    .prefault({}),
});
