terraform {
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 4.0"
    }
  }
}

variable "name" {
  type = string
}

variable "subscription" {
  type = string
}

variable "region" {
  type = string
}

variable "nodes" {
  type = number
}

variable "size" {
  type = string
}

variable "kubernetes" {
  type = string
}

provider "azurerm" {
  features {}
  subscription_id = var.subscription
}

resource "azurerm_resource_group" "meta" {
  name     = "drover-${var.name}"
  location = var.region
}

resource "azurerm_kubernetes_cluster" "meta" {
  name                = var.name
  location            = azurerm_resource_group.meta.location
  resource_group_name = azurerm_resource_group.meta.name
  dns_prefix          = var.name
  kubernetes_version  = var.kubernetes == "" ? null : var.kubernetes

  default_node_pool {
    name       = "default"
    node_count = var.nodes
    vm_size    = var.size
  }

  identity {
    type = "SystemAssigned"
  }

  network_profile {
    network_plugin = "azure"
    network_policy = "azure" # or the network policies of the meta environment would mean nothing
  }
}

output "address" {
  value = nonsensitive(azurerm_kubernetes_cluster.meta.kube_config[0].host) # it is told beside secrets, and is none
}

output "kubeconfig" {
  value     = azurerm_kubernetes_cluster.meta.kube_config_raw
  sensitive = true
}
