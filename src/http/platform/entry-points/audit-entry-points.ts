import { ok } from '../../route/declaration.ts';
import { entryPoint } from '../entry-point.ts';
import { auditQuery, auditResponse } from '../platform-schemas.ts';
import { auditView } from '../platform-views.ts';

/** Entry points of the audit log. */
export const auditEntryPoints = [
  entryPoint({
    id: 'listAuditLog',
    method: 'get',
    path: '/audit',
    tag: 'Audit',
    summary: 'List the audit log, newest entries first',
    access: 'administrator',
    role: 'audit',
    query: auditQuery,
    responses: ok(auditResponse),
    async run({ query: { of, max, before } }, { audits }) {
      const entries = await audits[of].list({ before, limit: max });
      return { entries: entries.map(auditView) };
    },
  }),
];
