package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

const (
	// topEvery is the time between two looks, topWait how long one may take.
	topEvery = 2 * time.Second
	topWait  = 10 * time.Second
	// topRows are asked for: what a terminal shows, and some to filter.
	topRows = 500
)

func newTop(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "Watch workflows, sites, pilots, tasks and files at a terminal", Args: asUsed,
		Long: `Shows what the live page shows, at a terminal, anew every 2 s; it changes nothing.
Keys: 1 to 5 or Tab choose a list, arrows a row, Enter opens the tasks of a workflow,
l shows the output of a task, e why it waits, / filters, ? lists the keys, q ends.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !isTerminal(a.out.stdout) {
				return coded(exitUsage, "top needs a terminal: scripts use the list commands, or pilotage events --follow")
			}
			return a.withQueue(func(queue *clients) error {
				_, err := tea.NewProgram(newTopModel(c.Context(), queue), tea.WithContext(c.Context())).Run()
				if c.Context().Err() != nil {
					return nil // interrupted, which is a way to end it
				}
				return err
			})
		},
	}
}

// topList is one of the lists: what it asks the queue for, and how it shows it.
type topList struct {
	name   string
	header []string
	fetch  func(ctx context.Context, c *clients, workflow string) ([][]string, error)
}

var topLists = []topList{
	{"workflows", workflowHeader, func(ctx context.Context, c *clients, _ string) ([][]string, error) {
		reply, err := c.tasks.ListWorkflows(ctx, &pb.ListWorkflowsRequest{PageSize: topRows})
		return rowsOf(reply.GetWorkflows(), workflowRow), err
	}},
	{"sites", siteHeader, func(ctx context.Context, c *clients, _ string) ([][]string, error) {
		sites, err := everyPage(ctx, c.sites.ListSites, &pb.ListSitesRequest{}, (*pb.ListSitesResponse).GetSites)
		return rowsOf(sites, siteRow), err
	}},
	{"pilots", pilotHeader, func(ctx context.Context, c *clients, _ string) ([][]string, error) {
		reply, err := c.pilots.ListPilots(ctx, &pb.ListPilotsRequest{PageSize: topRows})
		return rowsOf(reply.GetPilots(), pilotRow), err
	}},
	{"tasks", taskHeader, func(ctx context.Context, c *clients, workflow string) ([][]string, error) {
		if workflow == "" { // the newest one
			newest, err := c.tasks.ListWorkflows(ctx, &pb.ListWorkflowsRequest{PageSize: 1})
			if err != nil || len(newest.GetWorkflows()) == 0 {
				return nil, err
			}
			workflow = newest.GetWorkflows()[0].GetId()
		}
		reply, err := c.tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: workflow, PageSize: topRows})
		return rowsOf(reply.GetTasks(), taskRow), err
	}},
	{"files", fileHeader, func(ctx context.Context, c *clients, _ string) ([][]string, error) {
		reply, err := c.files.ListFiles(ctx, &pb.ListFilesRequest{PageSize: topRows})
		return rowsOf(reply.GetFiles(), fileRow), err
	}},
}

// Places of the lists that lead to others.
const (
	topWorkflows = 0
	topTasks     = 3
)

// topModel is what top shows. Messages change it; it draws itself as text.
type topModel struct {
	ctx   context.Context //nolint:containedctx // of the whole program, for the commands that it starts
	queue *clients

	list     int
	workflow string // whose tasks are listed; "" is the newest one's
	opened   int    // lists so far: what belongs to an earlier one is dropped
	rows     [][]string
	err      error
	selected int
	filter   string
	typing   bool   // the filter is being typed
	detail   string // text that is shown instead of the list
	scroll   int    // of detail
	width    int
	height   int
}

func newTopModel(ctx context.Context, queue *clients) *topModel {
	return &topModel{ctx: ctx, queue: queue, width: 100, height: 30}
}

// topLook brings the rows of a list, topText a text about a task.
type (
	topLook struct {
		opened int
		rows   [][]string
		err    error
	}
	topText string
	topTick struct{ opened int }
)

// Init satisfies tea.Model.
func (m *topModel) Init() tea.Cmd { return m.look() }

func (m *topModel) look() tea.Cmd {
	list, workflow, opened := m.list, m.workflow, m.opened
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, topWait)
		defer cancel()
		rows, err := topLists[list].fetch(ctx, m.queue, workflow)
		return topLook{opened, rows, err}
	}
}

// Update satisfies tea.Model.
func (m *topModel) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case topTick:
		if message.opened == m.opened {
			return m, m.look()
		}
	case topText:
		m.detail, m.scroll = string(message), 0
	case topLook:
		if message.opened == m.opened {
			if m.err = message.err; m.err == nil {
				m.rows = message.rows
			}
			m.selected = min(m.selected, max(0, len(m.shown())-1))
			return m, tea.Tick(topEvery, func(time.Time) tea.Msg { return topTick{message.opened} })
		}
	case tea.KeyPressMsg:
		return m, m.key(message)
	case tea.PasteMsg:
		if m.typing {
			m.filter, m.selected = m.filter+message.Content, 0
		}
	}
	return m, nil
}

func (m *topModel) key(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
	case m.typing:
		m.typeFilter(k)
		return nil
	case m.detail != "":
		m.readDetail(k)
		return nil
	}
	switch name := k.String(); name {
	case "q":
		return tea.Quit
	case "1", "2", "3", "4", "5":
		return m.open(int(name[0]-'1'), "")
	case "tab", "right":
		return m.open((m.list+1)%len(topLists), "")
	case "shift+tab", "left":
		return m.open((m.list+len(topLists)-1)%len(topLists), "")
	case "up", "k":
		m.selected = max(0, m.selected-1)
	case "down", "j":
		m.selected = min(max(0, len(m.shown())-1), m.selected+1)
	case "pgdown":
		m.selected = min(max(0, len(m.shown())-1), m.selected+m.page())
	case "pgup":
		m.selected = max(0, m.selected-m.page())
	case "/":
		m.typing, m.filter = true, ""
	case "esc":
		m.filter = ""
	case "?":
		m.detail = topHelp
	case "enter":
		if id := m.chosen(); id != "" && m.list == topWorkflows {
			return m.open(topTasks, id)
		}
	case "l", "e":
		if id := m.chosen(); id != "" && m.list == topTasks {
			return m.about(name, id)
		}
	}
	return nil
}

const topHelp = `Keys
  1 to 5, Tab      workflows, sites, pilots, tasks, files
  arrows, PgUp/Dn  choose a row
  Enter            tasks of the workflow
  l                output of the task
  e                why the task waits
  /                filter rows; Esc ends it
  q                end

Esc closes this.`

func (m *topModel) typeFilter(k tea.KeyPressMsg) {
	switch k.Code {
	case tea.KeyEnter:
		m.typing = false
	case tea.KeyEsc:
		m.typing, m.filter = false, ""
	case tea.KeyBackspace:
		if runes := []rune(m.filter); len(runes) > 0 {
			m.filter = string(runes[:len(runes)-1])
		}
	default:
		m.filter += k.Text
	}
	m.selected = 0
}

func (m *topModel) readDetail(k tea.KeyPressMsg) {
	switch k.String() {
	case "esc", "q", "enter":
		m.detail = ""
	case "down", "j":
		m.scroll++
	case "pgdown":
		m.scroll += m.page()
	case "up", "k":
		m.scroll--
	case "pgup":
		m.scroll -= m.page()
	}
	m.scroll = max(0, min(m.scroll, strings.Count(m.detail, "\n")))
}

func (m *topModel) open(list int, workflow string) tea.Cmd {
	if list == m.list && workflow == m.workflow {
		return nil // its next look is under way
	}
	m.list, m.workflow, m.rows, m.selected, m.err = list, workflow, nil, 0, nil
	m.opened++
	return m.look()
}

// about fetches the output of a task, or why it waits.
func (m *topModel) about(key, id string) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, topWait)
		defer cancel()
		said := &bytes.Buffer{}
		if key == "l" {
			logs, err := m.queue.tasks.GetTaskLogs(ctx, &pb.GetTaskLogsRequest{TaskId: id})
			if err != nil {
				return topText(explain(err))
			}
			return topText(fmt.Sprintf("Output of %s\n\n%s\n--- standard error\n%s", id, logs.GetStdout(), logs.GetStderr()))
		}
		e, err := m.queue.tasks.ExplainTask(ctx, &pb.ExplainTaskRequest{TaskId: id})
		if err == nil {
			err = (&console{stdout: said, output: "table"}).explainTask(e)
		}
		if err != nil {
			return topText(explain(err))
		}
		return topText(said.String())
	}
}

// shown are the rows that the filter leaves.
func (m *topModel) shown() [][]string {
	if m.filter == "" {
		return m.rows
	}
	var left [][]string
	for _, row := range m.rows {
		if strings.Contains(strings.ToLower(strings.Join(row, " ")), strings.ToLower(m.filter)) {
			left = append(left, row)
		}
	}
	return left
}

// chosen is the first cell of the row that is chosen.
func (m *topModel) chosen() string {
	if rows := m.shown(); m.selected < len(rows) {
		return rows[m.selected][0]
	}
	return ""
}

// page is how many rows fit below the head and above the foot.
func (m *topModel) page() int { return max(1, m.height-4) }

// View satisfies tea.Model.
func (m *topModel) View() tea.View {
	return tea.View{Content: m.screen(), AltScreen: true}
}

// screen is what the terminal shows, line by line.
func (m *topModel) screen() string {
	lines := []string{m.tabs()}
	switch {
	case m.detail != "":
		lines = append(lines, strings.Split(m.detail, "\n")[m.scroll:]...)
		lines = lines[:min(len(lines), m.height-1)]
	default:
		lines = append(lines, m.table()...)
	}
	for i, line := range lines {
		lines[i] = cut(line, m.width)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, cut(m.foot(), m.width)), "\n")
}

func (m *topModel) tabs() string {
	var names []string
	for i, list := range topLists {
		name := fmt.Sprintf("%d %s", i+1, list.name)
		if i == m.list {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	text := "Pilotage  " + strings.Join(names, "  ")
	if m.list == topTasks && m.workflow != "" {
		text += "  of " + m.workflow
	}
	return text
}

// table is the part of the list around the chosen row, in columns.
func (m *topModel) table() []string {
	rows := m.shown()
	first := max(0, min(m.selected-m.page()/2, len(rows)-m.page()))
	var text strings.Builder
	_ = (&console{stdout: &text}).table(topLists[m.list].header, rows[first:min(len(rows), first+m.page())])
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i := range lines {
		mark := "  "
		if len(rows) > 0 && first+i-1 == m.selected {
			mark = "> "
		}
		lines[i] = mark + lines[i]
	}
	if len(rows) == 0 {
		lines = append(lines, "  nothing to show")
	}
	return lines
}

func (m *topModel) foot() string {
	switch {
	case m.typing:
		return "/" + m.filter + "_"
	case m.err != nil:
		return "the queue does not answer; trying again: " + reason(m.err)
	case m.filter != "":
		return fmt.Sprintf("%d of %d rows have %q; Esc shows all", len(m.shown()), len(m.rows), m.filter)
	}
	return fmt.Sprintf("%d rows   / filter  Enter tasks  l output  e explain  ? help  q end", len(m.rows))
}

// cut makes a text safe for a line of the terminal.
func cut(text string, width int) string {
	runes := []rune(cellText(text))
	return string(runes[:min(len(runes), max(0, width))])
}
