package metrics

// deliveryOutcomes are what becomes of a delivery of the webhook.
var deliveryOutcomes = [...]string{"accepted", "unmatched", "refused", "replayed", "unreadable"}

// Delivered counts a delivery of the webhook, the label outcome being one of those that package hook tells.
func (m *Meter) Delivered(outcome string) {
	for i, known := range deliveryOutcomes {
		if known == outcome {
			m.deliveries[i].Add(1)
		}
	}
}
