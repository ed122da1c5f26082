import { parseDuration } from '../../server/config/duration.ts';
import {
  type Command,
  CommandError,
  none,
  print,
  table,
  text,
  type Values,
} from '../command/command.ts';
import { platformOptions, platformVariables, withPlatform } from './platform-options.ts';

interface Entry {
  readonly id: number;
  readonly time: string;
  readonly actor: string;
  readonly client?: string;
  readonly action: string;
  readonly target: string;
}

const largestPage = 1000;

/** `sluice audit`: shows the audit log. */
export const auditCommand: Command = {
  summary: 'Show who changed users, tokens, credentials and repositories, who pulled and who built',
  usage: [''],
  options: {
    of: {
      type: 'string',
      value: 'KIND',
      description:
        'Kind of entries: changes, pulls or builds. Pulls and builds are recorded where audit.pulls and audit.builds are on. Default: changes',
    },
    match: {
      type: 'string',
      value: 'TEXT',
      description: 'Show entries whose actor, client, action or target contains TEXT',
    },
    since: {
      type: 'string',
      value: 'TIME',
      description: 'Show entries of the last TIME, such as 12h or 30d. Default: all entries',
    },
    limit: {
      type: 'string',
      value: 'NUMBER',
      description: 'Maximum number of entries, the newest ones. Default: 100',
    },
    ...platformOptions,
  },
  variables: platformVariables,

  async run(values, args) {
    none(args);
    const [limit, since, kind] = [limitOf(values), sinceOf(values), kindOf(values)];
    const match = text(values, 'match') ?? '';
    const entries: Entry[] = [];
    await withPlatform(values, async ask => {
      let before = '';
      while (entries.length < limit) {
        const max = match === '' ? Math.min(limit - entries.length, largestPage) : largestPage;
        const page = (await ask('GET', `/audit?of=${kind}&max=${max}${before}`)) as {
          entries: Entry[];
        };
        const recent = page.entries.filter(({ time }) => Date.parse(time) >= since);
        entries.push(...recent.filter(entry => contains(entry, match)));
        if (recent.length < max) return;
        before = `&before=${recent.at(-1)?.id}`;
      }
    });
    entries.splice(limit);
    entries.reverse();
    const rows = entries.map(({ time, actor, client, action, target }) => [
      ...[time, actor, client ?? '-', action, target],
    ]);
    print(values, { entries }, table(['time', 'actor', 'client', 'action', 'target'], rows));
    return 0;
  },
};

function contains({ actor, client = '', action, target }: Entry, match: string): boolean {
  return [actor, client, action, target].some(part => part.includes(match));
}

function kindOf(values: Values): string {
  const given = text(values, 'of') ?? 'changes';
  if (['changes', 'pulls', 'builds'].includes(given)) return given;
  throw new CommandError(`--of ${given}: expected changes, pulls or builds`, 2);
}

function limitOf(values: Values): number {
  const given = text(values, 'limit') ?? '100';
  if (/^[1-9]\d{0,5}$/.test(given)) return Number(given);
  throw new CommandError(`--limit ${given}: expected a number from 1 to 999999`, 2);
}

/** ms since the epoch */
function sinceOf(values: Values): number {
  const given = text(values, 'since');
  if (given === undefined) return 0;
  const life = parseDuration(given);
  if (life !== undefined) return Date.now() - life;
  throw new CommandError(`--since ${given}: expected a time such as 12h or 30d`, 2);
}
