import { type CommandGroup, none, only, print, table, type Values } from '../command/command.ts';
import { platformOptions, platformVariables, withPlatform } from './platform-options.ts';

interface Message {
  readonly id: number;
  readonly time: string;
  readonly target: string;
  readonly kind: string;
  readonly subject: string;
  readonly state: 'waiting' | 'dead';
  readonly attempts: number;
  readonly error?: string;
}

const largestPage = 1000;
const mostListed = 10_000;

/** `sluice messages`: messages that their receivers do not have yet. */
export const messagesCommand: CommandGroup = {
  summary: 'Show messages that webhooks and mail servers did not accept, and send them again',
  actions: {
    list: {
      summary: 'List messages that their receivers do not have yet',
      usage: [''],
      options: {
        dead: {
          type: 'boolean',
          description: 'Only messages of which no attempt is left',
        },
        ...platformOptions,
      },
      variables: platformVariables,
      async run(values, args) {
        none(args);
        const messages = await listed(values);
        const rows = messages.map(({ id, time, target, kind, subject, state, attempts, error }) => [
          ...[String(id), time, target, kind, subject, state, String(attempts), error ?? '-'],
        ]);
        const heads = ['id', 'time', 'target', 'kind', 'subject', 'state', 'attempts', 'error'];
        print(values, { messages }, table(heads, rows));
        return 0;
      },
    },
    resend: {
      summary: 'Send messages again of which no attempt is left',
      usage: ['ID', '--all'],
      options: {
        all: { type: 'boolean', description: 'All of them' },
        ...platformOptions,
      },
      variables: platformVariables,
      async run(values, args) {
        if (values.all === true) {
          none(args);
          const { resent } = (await withPlatform(values, ask =>
            ask('POST', '/messages/resend'),
          )) as { resent: number };
          print(values, { resent }, `${resent} messages are sent again`);
          return 0;
        }
        const id = only(args, 'ID');
        await withPlatform(values, ask =>
          ask('POST', `/messages/${encodeURIComponent(id)}/resend`),
        );
        print(values, { resent: 1 }, `Message ${id} is sent again`);
        return 0;
      },
    },
  },
};

function listed(values: Values): Promise<Message[]> {
  const state = values.dead === true ? 'dead' : 'all';
  return withPlatform(values, async ask => {
    const messages: Message[] = [];
    for (let before = ''; messages.length < mostListed; ) {
      const page = (await ask('GET', `/messages?state=${state}&max=${largestPage}${before}`)) as {
        messages: Message[];
      };
      messages.push(...page.messages);
      if (page.messages.length < largestPage) break;
      before = `&before=${page.messages.at(-1)?.id}`;
    }
    return messages;
  });
}
