package server

import (
	"strings"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// may is a set of kinds of callers.
type may uint16

const (
	admin     may = 1 << iota // token of an operator
	submit                    // token of a workflow manager
	newPilot                  // token of a site's pilots, to register
	member                    // membership certificate of a registered pilot
	factory                   // token of a site's factory of pilots
	reader                    // token of somebody who looks
	anybody                   // also without any access
	operator                  // token of a site's operator
	canRead                   // another issuer's token with scope compute.read
	canCreate                 // compute.create
	canModify                 // compute.modify
	canCancel                 // compute.cancel

	people   = admin | submit
	bearers  = canRead | canCreate | canModify | canCancel
	readers  = people | reader | canRead
	lookers  = readers | operator // at sites and pilots
	stewards = admin | operator   // handlers keep an operator to its site
	everyone = admin | submit | newPilot | member | factory | reader | operator | bearers
)

// String names the accesses that do, for who came with another one.
func (m may) String() string {
	switch {
	case m&people == people && m&bearers != 0 && m&reader == 0:
		return "an admin's or a submit token, or another issuer's with scope " + strings.Join((m&bearers).scopes(), " or ")
	case m&reader != 0:
		return "an admin's, a submit or a read-only token, or another issuer's with scope compute.read"
	case m&submit != 0:
		return "an admin's or a submit token"
	case m&operator != 0:
		return "an admin's or a site operator's token"
	case m&newPilot != 0:
		return "a pilot token of a site"
	case m&factory != 0:
		return "the token of a site's factory"
	case m&admin != 0:
		return "an admin's token"
	}
	return "the certificate of a registered pilot"
}

// scopes are the capabilities of other issuers' tokens that count (WLCG token profile,
// section on computing; SciTokens).
var scopes = []struct {
	name string
	may  may
}{{"compute.read", canRead}, {"compute.create", canCreate}, {"compute.modify", canModify}, {"compute.cancel", canCancel}}

func (m may) scopes() (names []string) {
	for _, scope := range scopes {
		if m&scope.may != 0 {
			names = append(names, scope.name)
		}
	}
	return names
}

// permissions says who may call which method. What is not listed nobody may.
// A pilot speaks for itself and its own site only, see caller.speaksForItsSite.
var permissions = map[string]may{
	pb.TaskService_SubmitWorkflow_FullMethodName:      people | canCreate,
	pb.TaskService_GetWorkflow_FullMethodName:         readers,
	pb.TaskService_ListWorkflows_FullMethodName:       readers,
	pb.TaskService_WatchWorkflow_FullMethodName:       readers,
	pb.TaskService_ListWorkflowOutputs_FullMethodName: readers,
	pb.TaskService_CancelWorkflow_FullMethodName:      people | canCancel,
	pb.TaskService_RetryWorkflow_FullMethodName:       people | canModify,
	pb.TaskService_DeleteWorkflow_FullMethodName:      people | canModify,
	pb.TaskService_GetUsage_FullMethodName:            readers,
	pb.TaskService_GetTask_FullMethodName:             readers,
	pb.TaskService_ListTasks_FullMethodName:           readers,
	pb.TaskService_CancelTask_FullMethodName:          people | canCancel,
	pb.TaskService_RetryTask_FullMethodName:           people | canModify,
	pb.TaskService_ExplainTask_FullMethodName:         readers,
	pb.TaskService_GetTaskLogs_FullMethodName:         readers,
	pb.TaskService_GetWorkflowSteps_FullMethodName:    readers,

	pb.FileService_RegisterFiles_FullMethodName: people | canCreate,
	pb.FileService_ListFiles_FullMethodName:     readers,
	pb.FileService_LocateFile_FullMethodName:    readers,
	pb.FileService_DoubtCopy_FullMethodName:     people | canRead,
	pb.FileService_RemoveFile_FullMethodName:    people | canModify,
	pb.FileService_PlanUpload_FullMethodName:    people | canCreate,
	pb.FileService_FetchFile_FullMethodName:     people | canRead,

	pb.SiteService_AddSite_FullMethodName:      stewards,
	pb.SiteService_ListSites_FullMethodName:    lookers,
	pb.SiteService_GetSite_FullMethodName:      lookers,
	pb.SiteService_DrainSite_FullMethodName:    stewards,
	pb.SiteService_RemoveSite_FullMethodName:   admin,
	pb.SiteService_CreateAccess_FullMethodName: stewards | factory,
	pb.SiteService_GetDemand_FullMethodName:    lookers | factory,
	pb.SiteService_WatchEvents_FullMethodName:  lookers,
	pb.SiteService_RevokeAccess_FullMethodName: stewards,
	pb.SiteService_ListAccess_FullMethodName:   stewards,
	pb.SiteService_ListAudit_FullMethodName:    stewards,
	pb.SiteService_VerifyAudit_FullMethodName:  admin,
	pb.SiteService_Ban_FullMethodName:          stewards,
	pb.SiteService_Unban_FullMethodName:        stewards,
	pb.SiteService_ListBans_FullMethodName:     stewards,

	pb.PilotService_Register_FullMethodName:          admin | newPilot,
	pb.PilotService_ClaimMastership_FullMethodName:   member,
	pb.PilotService_Sync_FullMethodName:              member,
	pb.PilotService_Pull_FullMethodName:              member,
	pb.PilotService_DeliverOutcomes_FullMethodName:   member,
	pb.PilotService_ReportUnreachable_FullMethodName: member,
	pb.PilotService_ListPeers_FullMethodName:         member,
	pb.PilotService_ReportTrial_FullMethodName:       member,
	pb.PilotService_SendFile_FullMethodName:          member,
	pb.PilotService_Leave_FullMethodName:             member,
	pb.PilotService_ListPilots_FullMethodName:        lookers,
	pb.PilotService_GetPilot_FullMethodName:          lookers,
	pb.PilotService_DrainPilot_FullMethodName:        stewards,

	healthpb.Health_Check_FullMethodName: anybody,
	healthpb.Health_List_FullMethodName:  anybody,
	healthpb.Health_Watch_FullMethodName: anybody,

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      everyone,
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: everyone,
}
