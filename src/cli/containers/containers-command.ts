import { parseDuration } from '../../server/config/duration.ts';
import {
  type Command,
  type CommandGroup,
  jsonOption,
  only,
  print,
  serverOption,
  serverVariables,
  table,
  text,
  tokenVariable,
  UsageError,
  type Values,
} from '../command/command.ts';
import { act, get, loginHeaders, remove } from '../server-client.ts';

const common: Pick<Command, 'options' | 'variables'> = {
  options: { server: serverOption, json: jsonOption },
  variables: {
    ...serverVariables,
    ...tokenVariable,
    SLUICE_ACCOUNT:
      'Account of an administrator, as name:password, for the names of all users; SLUICE_TOKEN wins',
  },
};

const path = '/v1alpha1/containers';

/** `sluice containers`: the served names that have not ended. */
export const containersCommand: CommandGroup = {
  summary: 'List the served names of an image that have not ended, extend them and end them',
  actions: {
    list: {
      ...common,
      summary: 'List your served names; administrators see those of all users',
      usage: ['', 'IMAGE|DIGEST'],
      async run(values, args) {
        if (args.length > 1) throw new UsageError(`Expected one image, got ${args.length}`);
        const containers: LiveName[] = [];
        for await (const page of pages<NamePage>(args[0], query => get(values, query, login()))) {
          containers.push(...page.containers);
        }
        const rows = containers.map(name => {
          const { id, image, user = '-', workflowId = '-', creationTime, expiration } = name;
          return [id, image, user, workflowId, creationTime, expiration];
        });
        const titles = ['id', 'image', 'user', 'run', 'requested', 'expires'];
        print(values, { containers }, table(titles, rows));
        return 0;
      },
    },

    extend: {
      ...common,
      summary:
        'Extend the served names of an image, or one name by its id; they no longer end with a run',
      usage: ['IMAGE|DIGEST', 'ID'],
      options: {
        ...common.options,
        for: {
          type: 'string',
          value: 'TIME',
          description:
            'How long from now the names live, such as 12h; at most until tokens.maxLife of the server. Default: as long as new names',
        },
      },
      async run(values, args) {
        const what = only(args, 'IMAGE, DIGEST or ID');
        const result = await extend(values, what);
        const { extended, expiration } = result;
        const names = extended === 1 ? '1 served name' : `${extended} served names`;
        const until = expiration === undefined ? '' : `, which ends at ${expiration}`;
        print(values, result, `Extended ${names} of ${what}${until}`);
        return 0;
      },
    },

    end: {
      ...common,
      summary: 'End the served names of an image, or one name by its id: nobody can pull them then',
      usage: ['IMAGE|DIGEST', 'ID'],
      async run(values, args) {
        const what = only(args, 'IMAGE, DIGEST or ID');
        const ended = await end(values, what);
        const names = ended === 1 ? '1 served name' : `${ended} served names`;
        print(values, { ended }, `Ended ${names} of ${what}`);
        return 0;
      },
    },
  },
};

interface LiveName {
  readonly id: string;
  readonly image: string;
  readonly user?: string;
  readonly workflowId?: string;
  readonly creationTime: string;
  readonly expiration: string;
}

interface Part {
  readonly next?: string;
}

interface NamePage extends Part {
  readonly containers: readonly LiveName[];
}

interface EndPage extends Part {
  readonly ended: number;
}

interface ExtendPage extends Part {
  readonly extended: number;
  readonly expiration?: string;
}

async function extend(values: Values, what: string): Promise<Omit<ExtendPage, 'next'>> {
  const seconds = secondsOf(text(values, 'for'));
  if (isId(what)) {
    const query = seconds === undefined ? '' : `?seconds=${seconds}`;
    return (await act(values, `${path}/${what}/extend${query}`, login())) as ExtendPage;
  }
  let extended = 0;
  const ask = (query: string) => act(values, query, login());
  for await (const page of pages<ExtendPage>(what, ask, { at: `${path}/extend`, seconds })) {
    extended += page.extended;
  }
  return { extended };
}

function secondsOf(time: string | undefined): string | undefined {
  if (time === undefined) return undefined;
  const ms = parseDuration(time);
  if (ms === undefined) throw new UsageError('--for takes a time, such as 90m, 12h or 2d');
  return String(Math.ceil(ms / 1000));
}

function isId(what: string): boolean {
  return /^[0-9a-f]{64}$/.test(what);
}

async function end(values: Values, what: string): Promise<number> {
  if (isId(what)) {
    return ((await remove(values, `${path}/${what}`, login())) as EndPage).ended;
  }
  let sum = 0;
  for await (const page of pages<EndPage>(what, query => remove(values, query, login()))) {
    sum += page.ended;
  }
  return sum;
}

/** Calls the server until its response is the last one. */
async function* pages<P extends Part>(
  image: string | undefined,
  ask: (path: string) => Promise<unknown>,
  { at = path, seconds }: { at?: string; seconds?: string | undefined } = {},
): AsyncGenerator<P> {
  const query = new URLSearchParams(image === undefined ? {} : { image });
  if (seconds !== undefined) query.set('seconds', seconds);
  for (;;) {
    const page = (await ask(query.size === 0 ? at : `${at}?${query}`)) as P;
    yield page;
    if (page.next === undefined) return;
    query.set('last', page.next);
  }
}

function login(): Readonly<Record<string, string>> {
  return loginHeaders(process.env.SLUICE_TOKEN, process.env.SLUICE_ACCOUNT);
}
