import { duration } from '../../server/config/units.ts';
import { none, print, table } from '../action.ts';
import { type Command, CommandError, text, type Values } from '../command.ts';
import { platformOptions, withPlatform } from './platform-options.ts';

interface Entry {
  readonly id: number;
  readonly time: string;
  readonly actor: string;
  readonly client?: string;
  readonly action: string;
  readonly target: string;
}

const largestPage = 1000;

/** `sluice audit`: who did what to what. */
export const auditCommand: Command = {
  summary: 'Show who changed users, tokens, credentials, repositories and builds',
  usage: 'audit [--since TIME] [--limit NUMBER] [options]',
  options: {
    since: { type: 'string', value: 'TIME', description: 'How far back, such as 12h or 30d' },
    limit: { type: 'string', value: 'NUMBER', description: 'Most entries. Default: 100' },
    ...platformOptions,
  },

  async run(values, args) {
    none(args, 'audit [--since TIME] [--limit NUMBER]');
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
    print(values, { entries }, table(rows));
    return 0;
  },
};

function limitOf(values: Values): number {
  const given = text(values, 'limit') ?? '100';
  if (/^[1-9]\d{0,5}$/.test(given)) return Number(given);
  throw new CommandError('--limit: expected a number from 1 to 999999', 2);
}

/** ms since the epoch */
function sinceOf(values: Values): number {
  const given = text(values, 'since');
  if (given === undefined) return 0;
  const life = duration.safeParse(given);
  if (life.success) return Date.now() - life.data;
  throw new CommandError('--since: expected a time such as 12h or 30d', 2);
}
