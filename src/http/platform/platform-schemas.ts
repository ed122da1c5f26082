import { z } from 'zod';
import { tokenScopes } from '../../platform/built-in/index.ts';
import { auditKinds } from '../../storage/rows/index.ts';
import { queryNumber } from '../route/declaration.ts';

// Some clients send null for a member that is not set.
const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform(value => value ?? undefined);

const text = z.string().max(2000, 'is too long');
const time = z.string().meta({ format: 'date-time' });
const total = z.number().int().describe('Number of entries on all pages');
const lastUsed = time.nullable().describe('Day of the last use; the time of day is not stored');

const wholeNumber = 'expected a whole number';
const workspaceNumber = z
  .union([z.number(), z.string()], wholeNumber)
  .transform(value => (/^\d{1,15}$/.test(String(value)) ? Number(value) : Number.NaN))
  .refine(value => Number.isSafeInteger(value), wholeNumber);

const largestPage = 1000;
const outsidePage = `expected 1 to ${largestPage}`;
const mostOffset = 999_999_999;

/** Query parameters of every list. */
export const pageQuery = z.object({
  max: queryNumber(1, largestPage, outsidePage)
    .default(largestPage)
    .describe('Maximum number of entries in the response'),
  offset: queryNumber(0, mostOffset).default(0).describe('Number of entries to skip'),
});

const ownerOptions = {
  user: text.optional().describe('E-mail address of a user; for administrators'),
  workspaceId: workspaceNumber
    .optional()
    .describe('Number of a workspace: its credentials instead of personal ones'),
};

export const usersQuery = pageQuery.extend({
  email: text.optional().describe('Only the user with this e-mail address'),
});
export const workspacesQuery = pageQuery.extend({
  name: text.optional().describe('Only the workspace with this name'),
});
export const tokensQuery = pageQuery.extend({ user: ownerOptions.user });
export const credentialsQuery = pageQuery.extend(ownerOptions);
export const auditQuery = z.object({
  of: z
    .enum(auditKinds)
    .default('changes')
    .describe(
      '`changes`; `pulls` and `builds` are recorded where `audit.pulls` and `audit.builds` are on',
    ),
  max: pageQuery.shape.max,
  before: queryNumber(0, mostOffset).optional().describe('Only entries before this id'),
});
export const messagesQuery = z.object({
  state: z
    .enum(['all', 'dead'])
    .default('all')
    .describe('`dead`: only messages of which no attempt is left'),
  max: pageQuery.shape.max,
  before: queryNumber(0, mostOffset).optional().describe('Only messages before this id'),
});
export const workspaceQuery = z.object({ workspaceId: ownerOptions.workspaceId });

export const newUserSchema = z.object({ email: text }).meta({ title: 'NewUser' });
export const newWorkspaceSchema = z.object({ name: text }).meta({ title: 'NewWorkspace' });
export const newMemberSchema = z
  .object({ user: text.describe('E-mail address') })
  .meta({ title: 'NewMember' });
export const newTokenSchema = z
  .object({
    name: text,
    expiration: optional(z.iso.datetime({ offset: true, error: 'expected a time, ISO 8601' }))
      .describe(
        'When the token expires. Default: the expiration of the token that creates it; otherwise never',
      )
      .meta({ format: 'date-time' }),
    scopes: optional(z.array(z.enum(tokenScopes)).max(tokenScopes.length)).describe(
      'What the token may do: `pull` (the login for pulls), `request` (container requests, inspections, checks of credentials), `build`, `manage` (the tokens and registry credentials of its user, with their secrets). Default: everything that the creator may give',
    ),
    repositories: optional(z.array(z.string()).max(50)).describe(
      'Patterns of the repositories that the token may use: `team/*` of this server, `quay.io/team/*` of another registry. Such a token cannot have the scope `manage`. Default: all',
    ),
    user: optional(text).describe(
      'E-mail address of the user who gets the token; for administrators',
    ),
  })
  .meta({ title: 'NewToken' });

const secret = optional(z.string());
export const newCredentialsSchema = z
  .object({
    credentials: z.object({
      name: optional(text).describe('Default: the registry'),
      description: optional(text),
      provider: optional(text).describe(
        '`container-reg` (the default), `aws`, `google`, `azure`, `github`, `gitlab`, `bitbucket`, `gitea`',
      ),
      keys: z
        .object({
          registry: optional(text).describe(
            '`host[:port][/path]`; by default that of the provider: Docker Hub for `container-reg`, every registry of its cloud for `aws`, `google` and `azure`',
          ),
          userName: optional(text),
          password: secret,
          token: secret,
          accessKey: optional(text),
          secretKey: secret,
          assumeRoleArn: optional(text),
          externalId: optional(text),
          data: secret.describe('Key file of a Google service account'),
          clientId: optional(text),
          clientSecret: secret,
        })
        .describe('The provider determines which keys are required'),
    }),
    user: optional(text).describe('E-mail address of the owner; for administrators'),
    workspaceId: optional(workspaceNumber).describe(
      'Number of the workspace that shares the credentials',
    ),
  })
  .meta({ title: 'NewCredentials' });

const userView = z.object({
  id: z.number().int(),
  userName: z.string(),
  email: z.string(),
  dateCreated: time,
});
const workspaceView = z.object({ id: z.number().int(), name: z.string(), dateCreated: time });
const tokenView = z.object({
  id: z.number().int(),
  name: z.string(),
  user: z.string().describe('E-mail address'),
  dateCreated: time,
  expiration: time.nullable(),
  lastUsed,
  scopes: z.array(z.enum(tokenScopes)),
  repositories: z
    .array(z.string())
    .nullable()
    .describe('Patterns of the repositories that it may use; null for all'),
  createdBy: z
    .string()
    .nullable()
    .describe('The administrator who created it for its user; null for its user'),
});
const credentialsView = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string().optional(),
  provider: z.string(),
  keys: z
    .object({
      registry: z.string(),
      userName: z.string(),
      accessKey: z.string(),
      assumeRoleArn: z.string(),
      clientId: z.string(),
    })
    .partial()
    .describe('The keys that are not secret'),
  user: z.string().optional().describe('E-mail address of the owner'),
  workspace: z.string().optional().describe('Name of the workspace that owns the credentials'),
  dateCreated: time,
  lastUsed,
});

export const userResponse = z.object({ user: userView }).meta({ title: 'User' });
export const userInfoResponse = z
  .object({
    user: userView,
    tokenRights: z
      .object({
        scopes: z.array(z.enum(tokenScopes)),
        repositories: z.array(z.string()).optional(),
      })
      .optional()
      .describe('The limits of the access token; absent for none'),
  })
  .meta({ title: 'UserInfo' });
export const usersResponse = z
  .object({ users: z.array(userView), totalSize: total })
  .meta({ title: 'Users' });
export const workspaceResponse = z
  .object({ workspace: workspaceView })
  .meta({ title: 'Workspace' });
export const workspacesResponse = z
  .object({ workspaces: z.array(workspaceView), totalSize: total })
  .meta({ title: 'Workspaces' });
export const userWorkspacesResponse = z
  .object({
    orgsAndWorkspaces: z.array(
      z.object({
        orgId: z.number().int(),
        orgName: z.string(),
        workspaceId: z.number().int(),
        workspaceName: z.string(),
        workspaceFullName: z.string(),
        visibility: z.string(),
        roles: z.array(z.string()),
      }),
    ),
  })
  .meta({ title: 'UserWorkspaces' });
export const memberResponse = z.object({ member: userView }).meta({ title: 'Member' });
export const membersResponse = z
  .object({ members: z.array(userView), totalSize: total })
  .meta({ title: 'Members' });
export const newTokenResponse = z
  .object({
    accessKey: z.string().describe('The token; no other response contains it'),
    token: tokenView,
  })
  .meta({ title: 'CreatedToken' });
export const tokensResponse = z
  .object({ tokens: z.array(tokenView), totalSize: total })
  .meta({ title: 'Tokens' });
export const newCredentialsResponse = z
  .object({ credentialsId: z.string(), credentials: credentialsView })
  .meta({ title: 'CreatedCredentials' });
export const credentialsResponse = z
  .object({ credentials: z.array(credentialsView), totalSize: total })
  .meta({ title: 'CredentialsList' });
export const keysResponse = z
  .object({
    keys: z
      .string()
      .describe('JSON text: `discriminator` names the provider, the rest is its keys'),
  })
  .meta({ title: 'Keys' });
export const auditResponse = z
  .object({
    entries: z.array(
      z.object({
        id: z.number().int(),
        time,
        actor: z.string().describe('`account <name>`, `user <email>` or `command line (<user>)`'),
        client: z.string().optional().describe('Address of the caller'),
        action: z.string().describe('`token.create` and the like'),
        target: z.string(),
      }),
    ),
  })
  .meta({ title: 'AuditLog' });
export const messagesResponse = z
  .object({
    messages: z.array(
      z.object({
        id: z.number().int(),
        event: z.string().describe('Id of the event, as its receivers get it'),
        time,
        target: z.string().describe('Name of the webhook, or `e-mail`'),
        kind: z.string().describe('`build.ended` and the like'),
        subject: z.string().describe('Build or image that the message is about'),
        state: z.enum(['waiting', 'dead']).describe('`dead`: no attempt is left'),
        attempts: z.number().int().describe('Failed attempts'),
        error: z.string().optional().describe('Why the last attempt failed'),
      }),
    ),
  })
  .meta({ title: 'Messages' });
export const resentResponse = z
  .object({ resent: z.number().int().describe('Number of messages') })
  .meta({ title: 'ResentMessages' });
export const runResponse = z
  .object({ workflowId: z.string(), message: z.string() })
  .meta({ title: 'Run' });
export const newRunResponse = runResponse.meta({ title: 'NewRun' });
export const startedRunResponse = z
  .object({ workflowId: z.string(), watchUrl: z.string() })
  .meta({ title: 'StartedRun' });
export const platformInfoResponse = z
  .object({
    serviceInfo: z.object({
      version: z.string(),
      commitId: z.string(),
      apiVersion: z.string().describe('For `Accept-Version`'),
    }),
  })
  .meta({ title: 'PlatformInfo' });
