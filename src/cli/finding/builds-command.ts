import {
  type Command,
  CommandError,
  jsonOption,
  none,
  print,
  serverOption,
  serverVariables,
  table,
  text,
  tokenVariable,
  type Values,
} from '../command/command.ts';
import { get, loginHeaders, RefusedError } from '../server-client.ts';
import { rememberedBuilds } from './remembered-builds.ts';

interface Build {
  readonly id: string;
  readonly state: string;
  readonly reason?: string;
  readonly targetImage: string;
  readonly creationTime: string;
  readonly duration?: number;
}

const path = '/v1alpha1/builds';
const stateOf = (details: { succeeded?: boolean; phase?: string }) =>
  details.succeeded === undefined
    ? (details.phase ?? 'running')
    : details.succeeded
      ? 'succeeded'
      : 'failed';

/** `sluice builds`: the builds of the user. */
export const buildsCommand: Command = {
  summary:
    'List your builds with their states and why they failed. Without a login, those that were requested from this machine',
  usage: [''],
  options: {
    state: {
      type: 'string',
      value: 'STATE',
      completes: ['queued', 'running', 'succeeded', 'failed'],
      description: 'List only builds in this state: queued, running, succeeded or failed',
    },
    limit: {
      type: 'string',
      value: 'NUMBER',
      description: 'Number of builds, from 1 to 1000. Default: 20',
    },
    server: serverOption,
    json: jsonOption,
  },
  variables: {
    ...serverVariables,
    ...tokenVariable,
    SLUICE_ACCOUNT:
      'Account of an administrator, as name:password, for the builds of all users; SLUICE_TOKEN wins',
  },

  async run(values, args) {
    none(args);
    const limit = limitOf(values);
    const headers = loginHeaders(process.env.SLUICE_TOKEN, process.env.SLUICE_ACCOUNT);
    const isKnown = Object.keys(headers).length > 0;
    const builds = isKnown
      ? await listedBuilds(values, limit, headers)
      : await ownBuilds(values, limit);
    print(values, { builds }, linesOf(builds, isKnown));
    return 0;
  },
};

async function listedBuilds(
  values: Values,
  limit: number,
  headers: Readonly<Record<string, string>>,
): Promise<readonly Build[]> {
  const state = text(values, 'state');
  const query = new URLSearchParams(state === undefined ? {} : { state });
  const builds: Build[] = [];
  for (;;) {
    const page = (await get(values, query.size === 0 ? path : `${path}?${query}`, headers)) as {
      builds: readonly Build[];
      next?: string;
    };
    builds.push(...page.builds);
    if (page.next === undefined || builds.length >= limit) return builds.slice(0, limit);
    query.set('last', page.next);
  }
}

/** Returns the remembered builds that the server still knows. */
async function ownBuilds(values: Values, limit: number): Promise<readonly Build[]> {
  const wanted = text(values, 'state');
  const builds: Build[] = [];
  for (const id of await rememberedBuilds(values)) {
    if (builds.length >= limit) break;
    const build = await buildOf(values, id);
    if (build && (wanted === undefined || build.state === wanted)) builds.push(build);
  }
  return builds;
}

async function buildOf(values: Values, id: string): Promise<Build | undefined> {
  try {
    const details = (await get(values, `${path}/${id}`)) as Omit<Build, 'state'> & {
      readonly startTime: string;
      readonly succeeded?: boolean;
      readonly phase?: string;
    };
    const { targetImage, startTime: creationTime, duration, reason } = details;
    return {
      id,
      state: stateOf(details),
      targetImage,
      creationTime,
      ...(duration === undefined ? {} : { duration }),
      ...(reason === undefined ? {} : { reason }),
    };
  } catch (error) {
    if (error instanceof RefusedError && error.status === 404) return undefined;
    throw error;
  }
}

function linesOf(builds: readonly Build[], isKnown: boolean): readonly string[] {
  if (builds.length === 0) {
    return isKnown
      ? ['No builds']
      : [
          'No builds were requested from this machine at this server. To list the builds of your user, set SLUICE_TOKEN',
        ];
  }
  const rows = builds.map(({ state, duration, creationTime, id }) => [
    ...[state, duration === undefined ? '-' : `${duration.toFixed(1)} s`],
    ...[`${ageText(Date.now() - Date.parse(creationTime))} ago`, id],
  ]);
  const [head = '', ...lines] = table(['state', 'time', 'requested', 'id'], rows);
  return [head, ...lines.flatMap((line, at) => [line, ...detailLines(builds[at])])];
}

/** Returns the image and the reason of a failure, indented: beside the other columns, no terminal has room for them. */
function detailLines(build: Build | undefined): readonly string[] {
  const { targetImage = '', reason = '' } = build ?? {};
  return [targetImage, ...reason.split('\n')]
    .filter(line => line.trim() !== '')
    .map(line => `    ${line}`);
}

/** Returns the largest unit of a time: `5 min`. */
function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

function limitOf(values: Values): number {
  const given = text(values, 'limit') ?? '20';
  if (/^[1-9]\d{0,3}$/.test(given) && Number(given) <= 1000) return Number(given);
  throw new CommandError(`--limit ${given}: expected a number from 1 to 1000`, 2);
}
