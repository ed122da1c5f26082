import type { MailSettings, Webhook } from '../../../messages/index.ts';
import type { Config } from '../settings-schema.ts';
import { readAuthority } from './registries.ts';

/** Returns the listed webhooks. Throws a `ConfigError`. */
export function configuredWebhooks({ messages }: Pick<Config, 'messages'>): Webhook[] {
  return Object.entries(messages.webhooks).map(([name, settings]) => {
    const { address, form, events, secret, authorization, ca, allowPrivateAddress } = settings;
    const url = new URL(address);
    return {
      name,
      url,
      form,
      events,
      secret,
      authorization,
      allowPrivateAddress,
      ca: ca === undefined ? undefined : readAuthority(`messages.webhooks.${name}`, ca),
    };
  });
}

/** Returns how e-mails are sent; undefined without an SMTP server. */
export function configuredMail({ messages }: Pick<Config, 'messages'>): MailSettings | undefined {
  const { server, from, ca, builds: _, after: __, ...rest } = messages.mail;
  if (server === undefined || from === undefined) return undefined;
  return {
    username: undefined,
    password: undefined,
    ...rest,
    from,
    server: new URL(server),
    ca: ca === undefined ? undefined : readAuthority('messages.mail', ca),
  };
}
