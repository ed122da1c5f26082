import {
  type Command,
  type CommandGroup,
  jsonOption,
  only,
  print,
  serverOption,
  serverVariables,
  table,
  tokenVariable,
  UsageError,
  type Values,
} from '../command/command.ts';
import { get, loginHeaders, remove } from '../server-client.ts';

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
  summary: 'List the served names of an image that have not ended, and end them',
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
        const rows = containers.map(({ id, image, user = '-', creationTime, expiration }) => [
          ...[id, image, user, creationTime, expiration],
        ]);
        print(values, { containers }, table(['id', 'image', 'user', 'requested', 'expires'], rows));
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

async function end(values: Values, what: string): Promise<number> {
  if (/^[0-9a-f]{64}$/.test(what)) {
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
): AsyncGenerator<P> {
  const query = new URLSearchParams(image === undefined ? {} : { image });
  for (;;) {
    const page = (await ask(query.size === 0 ? path : `${path}?${query}`)) as P;
    yield page;
    if (page.next === undefined) return;
    query.set('last', page.next);
  }
}

function login(): Readonly<Record<string, string>> {
  return loginHeaders(process.env.SLUICE_TOKEN, process.env.SLUICE_ACCOUNT);
}
