import { parseDuration } from '../../server/config/duration.ts';
import { type Command, CommandError, none, text, type Values } from '../command/command.ts';
import { print, table } from '../command/output.ts';
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
  summary: 'Show who changed users, tokens, credentials, repositories and builds',
  usage: [''],
  options: {
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
    const [limit, since] = [limitOf(values), sinceOf(values)];
    const entries: Entry[] = [];
    await withPlatform(values, async ask => {
      while (entries.length < limit) {
        const last = entries.at(-1);
        const max = Math.min(limit - entries.length, largestPage);
        const before = last ? `&before=${last.id}` : '';
        const page = (await ask('GET', `/audit?max=${max}${before}`)) as { entries: Entry[] };
        const wanted = page.entries.filter(({ time }) => Date.parse(time) >= since);
        entries.push(...wanted);
        if (wanted.length < max) return;
      }
    });
    entries.reverse();
    const rows = entries.map(({ time, actor, client, action, target }) => [
      ...[time, actor, client ?? '-', action, target],
    ]);
    print(values, { entries }, table(['time', 'actor', 'client', 'action', 'target'], rows));
    return 0;
  },
};

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
