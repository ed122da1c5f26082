import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Command,
  jsonOption,
  only,
  print,
  serverOption,
  serverVariables,
  table,
  tokenVariable,
  type Values,
} from '../command/command.ts';
import { withWaitingLine } from '../progress/waiting-line.ts';
import { get, loginHeaders } from '../server-client.ts';

/** Channels that a search could not use, or not yet. */
interface Failures {
  readonly problems: readonly string[];
  readonly late: readonly string[];
  /** Summaries follow. */
  readonly isDescribing?: boolean;
}

interface Packages extends Failures {
  readonly total: number;
  /** The most similar name, where none contains the text. */
  readonly meant?: string;
  readonly packages: readonly {
    readonly name: string;
    readonly newest?: string;
    readonly summary?: string;
    readonly channels: readonly string[];
  }[];
  /** The Python package with this name. */
  readonly python?: {
    readonly entry: string;
    readonly newest: string;
    readonly hasWheel?: boolean;
  };
}

interface Versions extends Failures {
  readonly hasMore: boolean;
  readonly versions: readonly {
    readonly version: string;
    readonly channel: string;
    readonly platforms: readonly string[];
    readonly hasWheel?: boolean;
  }[];
}

// The list of a large channel takes half a minute the first time.
const mostLooks = 60;
// A search is not held up for summaries, and not for the index of Python packages.
const mostLooksForMore = 3;
const pythonIndex = 'PyPI';
const pauseMs = 1000;

/** `sluice search`: packages, or the versions of one. */
export const searchCommand: Command = {
  summary:
    'Search Conda packages by name and Python packages by their whole name, or list the versions of one',
  usage: ['TEXT', 'NAME --versions', 'pip:NAME --versions'],
  options: {
    versions: { type: 'boolean', description: 'List the versions of the package with this name' },
    channel: {
      type: 'string',
      value: 'CHANNEL',
      multiple: true,
      description: 'Channel to search, in order of priority. Default: those of sluice build',
    },
    server: serverOption,
    json: jsonOption,
  },
  variables: { ...serverVariables, ...tokenVariable },
  exits: { 1: 'Nothing was found' },

  async run(values, args) {
    const name = only(args, values.versions ? 'NAME' : 'TEXT');
    return values.versions ? showVersions(values, name) : showPackages(values, name);
  },
};

async function showPackages(values: Values, name: string): Promise<number> {
  const found = await complete<Packages>(values, '', { search: name });
  const rows = found.packages.map(({ name, newest = '-', channels, summary = '' }) => [
    ...[name, newest, channels.join(', '), summary],
  ]);
  const more = found.total - rows.length;
  const { python } = found;
  if (python) rows.push([python.entry, python.newest, pythonIndex, wheelNote(python)]);
  const head = ['package', 'newest', 'channels', 'summary'];
  print(values, found, rows.length === 0 ? [] : table(head, rows));
  reportFailures(found);
  if (rows.length === 0) {
    const meant = found.meant === undefined ? '' : `. Did you mean ${found.meant}?`;
    console.error(`No package${ofRead(found)} has '${name}' in its name${meant}`);
  } else if (more > 0 && !values.json) console.error(`${more} more: write more of the name`);
  return rows.length === 0 ? 1 : 0;
}

async function showVersions(values: Values, name: string): Promise<number> {
  const found = await complete<Versions>(values, `/${encodeURIComponent(name)}`, {});
  const rows = found.versions.map(({ version, channel, platforms, ...one }) => [
    ...[version, channel, platforms.join(', ') || wheelNote(one)],
  ]);
  print(values, found, rows.length === 0 ? [] : table(['version', 'channel', 'platforms'], rows));
  reportFailures(found);
  if (rows.length === 0) {
    console.error(
      `No package${ofRead(found)} is called '${name}'. To search names: sluice search ${name}`,
    );
  } else if (found.hasMore && !values.json) console.error('There are older versions');
  return rows.length === 0 ? 1 : 0;
}

/** Returns what is worth knowing of a Python package. */
function wheelNote({ hasWheel }: { readonly hasWheel?: boolean }): string {
  return hasWheel === false ? 'no wheel for Linux: a builder makes one' : '';
}

/** Returns a limit to what the response is about; empty if all channels were read. */
function ofRead({ problems, late }: Failures): string {
  return problems.length > 0 || late.length > 0 ? ' of a channel that could be read' : '';
}

/** Returns the result when all channels have answered, or after a minute. */
async function complete<T extends Failures>(
  values: Values,
  below: string,
  given: Readonly<Record<string, string>>,
): Promise<T> {
  const query = new URLSearchParams(given);
  const channels = [values.channel ?? []].flat().map(String);
  if (channels.length > 0) query.set('channels', channels.join(','));
  const headers = loginHeaders(process.env.SLUICE_TOKEN, undefined);
  const look = () => get(values, `/v1alpha1/packages${below}?${query}`, headers) as Promise<T>;
  return withWaitingLine(process.stderr, 'Reading the lists of packages', async () => {
    let found = await look();
    const isPartial = (looks: number) =>
      found.late.some(name => name !== pythonIndex) ||
      ((found.isDescribing || found.late.length > 0) && looks < mostLooksForMore);
    for (let looks = 1; isPartial(looks) && looks < mostLooks; looks += 1) {
      await sleep(pauseMs);
      found = await look();
    }
    return found;
  });
}

function reportFailures({ problems, late }: Failures): void {
  for (const problem of problems) console.error(`Warning: ${problem}`);
  if (late.length > 0) {
    console.error(
      `Warning: the list of packages of ${late.join(', ')} is still being fetched: search again`,
    );
  }
}
